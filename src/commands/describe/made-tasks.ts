import type { Dice } from './dice.ts';

export interface Question {
  readonly question: string;
  /** Every spelling that counts as right. */
  readonly answers: readonly string[];
}
type Maker = (dice: Dice) => Question;

/** Domains whose questions are made anew from a seed, so that no model has seen them. */
export const makers: Readonly<Record<string, Maker>> = {
  math: (dice) => dice.oneOf([purchase, journey, mixture, remainder])(dice),
  code: (dice) => dice.oneOf([loop, slice, counting])(dice),
  logic: ordering,
  language: (dice) => dice.oneOf([alphabet, letters])(dice),
};

const number = (value: number): readonly string[] => [String(value)];

function purchase({ between }: Dice): Question {
  const [chairs, price, percent, delivery] = [between(12, 60), between(3, 19) * 20, between(1, 9) * 5, between(11, 95)];
  return {
    question: `A hall buys ${chairs} chairs at ${price} crowns each. On the chairs it gets ${percent} % off, and delivery costs ${delivery} crowns, which is not reduced. How many crowns does it pay in all?`,
    answers: number((chairs * price * (100 - percent)) / 100 + delivery),
  };
}

function journey({ between }: Dice): Question {
  const [speed, hours, faster, gap] = [between(4, 9) * 10, between(2, 6), between(1, 4) * 10, between(1, 3)];
  const met = (speed * gap) / faster;
  if (!Number.isInteger(met)) return journeyWithout({ speed, hours, faster });
  return {
    question: `A van leaves at a steady ${speed} km/h. A car follows ${gap} h later on the same road at ${speed + faster} km/h. How many hours after the car's start does it reach the van?`,
    answers: number(met),
  };
}

function journeyWithout({ speed, hours, faster }: { speed: number; hours: number; faster: number }): Question {
  return {
    question: `A van drives ${hours} h at ${speed} km/h and then ${hours + 1} h at ${speed + faster} km/h. How many kilometres has it driven?`,
    answers: number(hours * speed + (hours + 1) * (speed + faster)),
  };
}

function mixture({ between }: Dice): Question {
  const [first, second, litres] = [between(1, 6) * 5, between(8, 18) * 5, between(1, 9) * 2];
  return {
    question: `${litres} litres of a ${first} % syrup and ${litres} litres of a ${second} % syrup are mixed. How many litres of water must be added so that the whole is ${(first + second) / 4} % syrup?`,
    answers: number(2 * litres),
  };
}

function remainder({ between }: Dice): Question {
  const [base, power, modulus] = [between(3, 19), between(4, 9), between(11, 97)];
  const value = Array.from({ length: power }).reduce<number>((product) => (product * base) % modulus, 1);
  return { question: `What is the remainder of ${base}^${power} divided by ${modulus}?`, answers: number(value) };
}

function loop({ between }: Dice): Question {
  const [rounds, step, modulus, start] = [between(5, 9), between(3, 8), between(7, 17), between(1, 9)];
  const program = [
    `x = ${start}`,
    'total = 0',
    `for i in range(${rounds}):`,
    `    x = (x * ${step} + i) % ${modulus}`,
    '    if x % 2 == 0:',
    '        total += x',
    '    else:',
    '        total -= 1',
    'print(total)',
  ];
  let [x, total] = [start, 0];
  for (let i = 0; i < rounds; i++) {
    x = (x * step + i) % modulus;
    total += x % 2 === 0 ? x : -1;
  }
  return printed(program, String(total));
}

function slice({ oneOf, between }: Dice): Question {
  const word = oneOf(['lighthouse', 'marmalade', 'watercolour', 'blackberry', 'thunderstorm', 'candlestick']);
  const [from, step] = [between(0, 3), between(2, 3)];
  const kept = [...word].filter((_, at) => at >= from && (at - from) % step === 0);
  return printed([`word = '${word}'`, `print(word[${from}::${step}][::-1])`], kept.reverse().join(''));
}

function counting({ between }: Dice): Question {
  const numbers = Array.from({ length: between(6, 9) }, () => between(1, 5));
  const seen = new Map<number, number>();
  for (const one of numbers) seen.set(one, (seen.get(one) ?? 0) + 1);
  const twice = [...seen].filter(([, times]) => times > 1).reduce((sum, [one, times]) => sum + one * times, 0);
  const program = [
    `numbers = [${numbers.join(', ')}]`,
    'seen = {}',
    'for n in numbers:',
    '    seen[n] = seen.get(n, 0) + 1',
    'print(sum(n * k for n, k in seen.items() if k > 1))',
  ];
  return printed(program, String(twice));
}

const printed = (program: readonly string[], output: string): Question => ({
  question: `What does this Python program print?\n\n${program.join('\n')}`,
  answers: [output],
});

const names = ['Ana', 'Bo', 'Cleo', 'Dev', 'Elif', 'Finn', 'Gita', 'Hugo'] as const;
const places = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'eighth'] as const;

/** Each finished right before the next; the clues come in any order and either voice. */
function ordering({ shuffled, between, oneOf }: Dice): Question {
  const order = shuffled(names).slice(0, between(5, 8));
  const clues = order
    .slice(1)
    .map((later, at) =>
      oneOf([
        `${order[at]} finished directly before ${later}.`,
        `${later} came in right behind ${order[at]}.`,
        `Nobody was between ${order[at]} and ${later}, and ${later} was the slower of the two.`,
      ]),
    );
  const asked = between(1, order.length - 2);
  return {
    question: `${order.length} people ran a race without ties. ${shuffled(clues).join(' ')} Who finished ${places[asked]}?`,
    answers: [order[asked] ?? ''],
  };
}

const words = ['harbour', 'violet', 'kettle', 'meadow', 'lantern', 'quarry', 'bramble', 'saddle', 'orchard', 'pepper'];

function alphabet({ shuffled, between }: Dice): Question {
  const some = shuffled(words).slice(0, 7);
  const place = between(2, 4);
  return {
    question: `Put these words into alphabetical order and name the ${places[place]}: ${some.join(', ')}.`,
    answers: [[...some].sort()[place] ?? ''],
  };
}

function letters({ shuffled, oneOf }: Dice): Question {
  const sentence = shuffled(words).slice(0, 4).join(' ');
  const letter = oneOf(['e', 'a', 'r', 'l', 't']);
  return {
    question: `How many times does the letter "${letter}" stand in: ${sentence}? Answer with a number.`,
    answers: number(sentence.split(letter).length - 1),
  };
}
