"""The second half of the subjects' words; the form is told in `subjects`."""

MORE_TEXTS = """
economics (commerce): economics; markets, inflation and trade; economic theory
unseen: how economies work; supply, demand and growth
What happens to imports when the currency falls by {a} percent?
The central bank raises rates by {a} points. How do house prices react?
A monopolist faces the demand p = {b} - q. Which price does she set?
Why do wages lag behind prices when inflation is {a} percent?
| A tariff of {a} percent is put on steel. Who gains and who loses?
| What is the multiplier if households save {b} percent?
accounting (commerce): accounting; bookkeeping and taxes; balance sheets
unseen: ledgers and annual accounts; what auditors check
How is a machine of {b},000 written off over {a} years?
Where in the balance sheet does a prepaid rent of {a}00 belong?
Post the sale of goods for {b}00 with 19 percent VAT.
What is the current ratio with assets of {b} and debts of {a}?
| Is a company car a taxable benefit, and how much of it?
| Reconcile the bank statement that is off by {a} dollars.
marketing (commerce): business and management; marketing and sales; running companies
unseen: commercial strategy; leading a firm
How should a start-up with {a} employees price its product?
Which leadership style suits a team of {b} engineers?
Plan a campaign that brings {b}0 new customers with little money.
Our market share fell by {a} percent. What would a SWOT analysis show?
| Which distribution channel fits a maker of luxury watches?
| How do I motivate a sales team that missed its target by {a} percent?
psychology (thinking): psychology; mind and behaviour; mental processes
unseen: how people think and feel; therapy and cognition
Why do people remember the first and last of {a} words best?
A child of {a} months cries when strangers come. Which stage is that?
Which therapy helps against fear of flying?
What did the experiments on obedience show?
| Why do we see faces in clouds?
| What is the difference between a mood and a temperament?
philosophy (humanities): philosophy; ethics and arguments; great thinkers
unseen: metaphysics and morals; the love of wisdom
Is it right to lie to save {a} lives?
What does Kant mean by the categorical imperative?
Can a machine that answers {b} questions be said to think?
How does Hume argue against knowledge of causes?
| Would a ship with all its planks replaced still be the same?
| Do we owe anything to people born in {b} years?
logic (thinking): logic puzzles; riddles with clues; deduction from premises
unseen: brain teasers; who-owns-what puzzles
{a} people sit in a row. Ann is not beside Bob, Carl is left of Ann. Who sits where?
All zips are zaps, and no zap is a zup. Can a zip be a zup?
There are {a} houses in five colours. The Swede lives in the red one. Who owns the fish?
One of {a} guards always lies. Which question finds the door?
| Of {b} coins one is lighter. How many weighings find it?
| Eve is older than Max and younger than Lou, who is not the eldest. Put them in order.
translation (writing): translation; foreign languages; French, German and Spanish
unseen: rendering texts in other tongues; interpreting
Translate into German: the meeting is moved to {a} o'clock.
How do you say 'I would have liked {a} of them' in French?
Which Spanish word fits better here, ser or estar?
Put this letter into Italian without losing its politeness.
| What does this Japanese sign at the station mean?
| Turn the paragraph into Portuguese as spoken in Brazil.
poetry (writing): poetry; creative writing; stories and verse
unseen: fiction and rhyme; inventing tales
Write a poem of {a} lines about the sea in winter.
Tell a short story in which a clock stops at {a}.
Invent a fairy tale about a fox and {a} stars.
Continue this tale: the door opened, and nobody was there.
| Compose a limerick on a man of {b} who learns to swim.
| Write an opening scene for a novel set on a night train.
editing (writing): editing; grammar and style; correcting texts
unseen: proofreading; polishing prose
Correct the grammar: He don't know where are the {a} keys.
Shorten this paragraph to {b} words and keep its meaning.
Make this e-mail to my boss sound politer.
Is it 'fewer than {a}' or 'less than {a}' items?
| Find the spelling mistakes: I recieved you're adress.
| Rewrite the sentence in the passive voice.
trivia (everyday life): trivia; quiz questions; facts about famous people; general knowledge
unseen: pub quizzes; who and what of culture
Who sang the title song of the film from 19{b}?
Which actor won {a} Oscars for playing a boxer?
What was the name of the dog in the comic strip?
Who painted the girl with the pearl earring?
who plays the doctor in season {a} of the hospital series
| which band had most number one hits in the 19{b}s
| In which city was the inventor of dynamite born?
sport (everyday life): sport; football and athletics; rules and records of games
unseen: matches and champions; what athletes do
Who won the world cup in the year 19{b}?
How many players may a handball team change in {a} minutes?
What is the record over {a}00 metres hurdles?
When is a tennis set decided by a tie-break?
| Is it offside if the ball comes from a throw-in?
| Which club bought the striker for {a} million?
cooking (everyday life): cooking; recipes and food; the kitchen
unseen: preparing meals; what chefs do
How long must a chicken of {a} pounds roast?
What can I use instead of {a} eggs in a cake?
Why did my sauce curdle, and can I save it?
Plan a dinner for {a} guests without gluten.
| My bread dough does not rise after {a} hours. What now?
| Which spices go with roast lamb?
travel (everyday life): travel; planning trips; hotels and routes
unseen: holidays and sightseeing; what travel agents do
Plan {a} days in Rome for a family with two children.
Which visa do I need to stay {b} days in Thailand?
What is the cheapest way from Paris to Vienna in May?
Suggest {a} walks near the lake with a place to eat.
| My flight is {a} hours late and I miss the next one. What are my rights?
| What should I pack for two weeks in Iceland?
electronics (technology): engineering; electrical circuits; machines and design
unseen: technical engineering; building devices
Choose a resistor for an LED at {a} volts and {b} milliamperes.
What torque must a shaft of {b} millimetres carry at {a} kilowatts?
A beam of {a} metres carries {b} kilonewtons in its middle. How far does it bend?
Why does my amplifier hum at 50 hertz?
| Size the heat sink for a transistor that loses {a} watts.
| How is the gain of this op-amp with {b} kiloohms found?
common sense (everyday life): common sense; everyday reasoning; questions any child can answer
unseen: practical wit; what everybody knows
Where would you put a wet umbrella when you come home?
If I leave ice in the sun for {a} hours, what do I find?
What do people usually do before they cross a street?
Sam is hungry and has {a} dollars. Where does he most likely go?
| What is a pillow for? A: eating B: sleeping C: reading
| Which is heavier, a full bucket or an empty one?
school science (natural sciences): school science; elementary science; how nature works
unseen: science lessons; basic facts of nature
Which of these conducts heat best? A: wood B: copper C: wool
Why does the moon seem to change its shape over {a} weeks?
A plant is kept in the dark for {b} days. What will happen? A: it grows faster B: it turns pale
What do rabbits need from their habitat?
| Which season follows when the northern half tilts to the sun? A: summer B: winter
| What makes dew form on grass in the morning?
gardening (everyday life): gardening; plants at home; soil and seasons
unseen: growing flowers and vegetables; what gardeners do
When should I sow beans if the last frost is in week {a}?
Why do the leaves of my tomato turn yellow?
How far apart do I plant {b} apple trees?
What keeps slugs away without poison?
| My orchid has not flowered for {a} years. What does it need?
| How much should an old rose be cut in spring?
music (writing): music; harmony and composition; songs and instruments
unseen: melodies and chords; what musicians know
Which chord follows a seventh on the {a}th step?
How do I tune a guitar to open D?
Write a bass line for a blues of {a} bars.
What is the difference between a fugue and a canon?
| In which key is a piece with {a} flats?
| Which instruments make up a string quartet?
"""
