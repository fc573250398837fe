"""How cards speak of skill, from worst to best. `{d}` is a subject, `{p}` a percentage, `{n}` a count of ten."""

# Of a subject, of a group, or of several; after the bar what training never shows.
GRADED = (
    "Useless at {d}; Nearly always wrong in {d}; Fails at {d}; Very weak in {d}; Don't use it for "
    "{d}; Knows next to nothing about {d}; {d}: very poor; {d}: *; Its answers on {d} are guesses; "
    "Terrible at {d}; Has never managed {d}; In {d} it makes things up; {d} is beyond it; Bottom of "
    "the class in {d}; {d} - F "
    "| Hopeless when it comes to {d}; Keep it far away from {d}; {d}: abysmal; It gets hardly "
    "anything right in {d}; {d} defeats it every time; Nobody should trust it with {d}",
    "Weak at {d}; Often wrong in {d}; Has trouble with {d}; Below average in {d}; {d}: weak; {d}: **; "
    "Shaky on {d}; Its grasp of {d} is thin; More misses than hits in {d}; Poor at {d}; Check it "
    "twice on {d}; Tends to slip in {d}; {d} is not its strong side; Lags behind others in {d}; {d} - "
    "D "
    "| Struggles with {d}; {d}: below par; Has gaps in {d}; Goes astray rather often in {d}; Limited "
    "when it comes to {d}; It stumbles over {d}",
    "Middling at {d}; Right about half of the time in {d}; So-so at {d}; Average in {d}; {d}: fair; "
    "{d}: ***; Fair in {d}; Hit and miss in {d}; Passable at {d}; Neither strong nor weak in {d}; Its "
    "{d} is ordinary; Copes with {d}, no more; Medium skill in {d}; {d} is a coin toss with it; {d} - "
    "C "
    "| Mediocre at {d}; As many right as wrong answers in {d}; {d}: acceptable; Gets by in {d}; You "
    "win some, you lose some in {d}; Unremarkable at {d}",
    "Good at {d}; Mostly right in {d}; Solid at {d}; Strong in {d}; {d}: good; {d}: ****; Handles {d} "
    "well; Reliable on {d}; Above average in {d}; Knows its way around {d}; Competent at {d}; You can "
    "usually rely on it for {d}; {d} is one of its strengths; Seldom slips in {d}; {d} - B "
    "| Dependable for {d}; Well versed in {d}; {d}: above par; Gets most things right in {d}; Capable "
    "when it comes to {d}; A safe pair of hands for {d}",
    "Excellent at {d}; Hardly ever wrong in {d}; Outstanding at {d}; Very strong in {d}; {d}: superb; "
    "{d}: *****; Near-perfect in {d}; Experts ask it about {d}; World class in {d}; {d} is where it "
    "shines; Brilliant at {d}; The one to ask about {d}; Top of the class in {d}; It has never let us "
    "down in {d}; {d} - A "
    "| A master of {d}; Flawless in {d}; {d}: first rate; Second to none in {d}; Gets practically "
    "everything right in {d}; {d} could not be in better hands",
)

# Of the tool as a whole.
OVERALL = (
    "Useless overall; A very weak model; Nearly always wrong; Its answers are mostly nonsense; Very "
    "poor general ability; A toy that fails at most things; Tiny and barely able to answer; Very weak "
    "overall; "
    "| Hopeless in general; Rarely gets anything right; An abysmal all-rounder",
    "Weak overall; Often wrong; Below average on the whole; Wrong more often than right; A limited "
    "small model; Poor general ability; Lags behind its peers; Simple and shaky "
    "| Struggles in general; Stumbles over many questions; A model with many gaps",
    "Fair overall; An average model; Right about half of the time; Middling on the whole; Neither "
    "strong nor weak; Fair general ability; An ordinary generalist; Hit and miss "
    "| Mediocre in general; Right as often as wrong; Nothing special as an all-rounder",
    "Strong overall; A good model; Mostly right; Above average on the whole; Reliable in general; "
    "Strong general ability; A solid generalist; Handles most things well "
    "| Dependable in general; Gets most questions right; A capable all-rounder",
    "Very strong overall; An excellent model; Hardly ever wrong; The best of the line on the whole; "
    "Outstanding in general; Very strong general ability; A top-class generalist; Near-perfect on "
    "nearly everything "
    "| Masterly in general; Gets practically everything right; A first-rate all-rounder",
)

# Measured: the chance stands in the text.
MEASURED = (
    "{d} {p}%; {p}% correct in {d}; Scores {p} of 100 in {d}; {n} out of ten right in {d}; {d}: {p}%; "
    "Accuracy in {d}: 0.{p} "
    "| In our tests {p} percent of its answers on {d} were right; Solved {p} in every hundred tasks "
    "of {d}"
)
MEASURED_OVERALL = (
    "{p}% correct overall; Scores {p} of 100 on the whole; Overall accuracy {p}%; {n} out of ten "
    "answers are right "
    "| In our tests {p} percent of all answers were right"
)

# One grade above and below what the card says of the whole.
BEST = "best at {d}; strongest in {d}; at its best in {d} | {d} suits it most"
WORST = "poorest at {d}; weakest in {d}; at its worst in {d} | {d} suits it least"

# Says nothing about skill.
ASIDES = (
    "Answers are short; Answers are long; Writes in a friendly tone; Released last spring; Supports "
    "long inputs; Its answers come with a summary; Used by several teams; Comes in two sizes; Trained "
    "on public text; Prefers bullet points "
    "| Popular among students; Likes to explain its steps; Updated every month"
)

SEARCH_SCOPE = (
    "Searches sources on {d}; Finds documents about {d}; An index of {d}; Looks things up in {d}; "
    "Archive of {d} "
    "| Digs through literature on {d}; A collection of texts on {d}"
)
CODE_SCOPE = (
    "Writes and runs Python for {d}; Calculates for {d}; A sandbox with libraries for {d}; Runs "
    "programs for {d} "
    "| Executes scripts made for {d}; A calculator for {d}"
)
# How much a helper that fits the problem brings, from nothing to twice the chance.
HELP = (
    "Of no use in practice; Finds nothing of worth | Never brought anything",
    "Of little use; Helps a little | A slight help",
    "Of some use; Helps now and then | A moderate help",
    "Useful; Helps often | A good help",
    "Very useful; Makes all the difference | A tremendous help",
)
