/** Ordered from the weakest promise to the strongest (design: `privacy`). */
export const privacyClasses = ['any', 'no_training', 'zdr', 'self_hosted', 'local'] as const;

export type PrivacyClass = (typeof privacyClasses)[number];

const rank = (value: PrivacyClass): number => privacyClasses.indexOf(value);

/** True when `offered` promises at least what `required` asks. */
export const satisfiesPrivacy = (offered: PrivacyClass, required: PrivacyClass): boolean =>
  rank(offered) >= rank(required);

export const strictestPrivacy = (...classes: readonly PrivacyClass[]): PrivacyClass =>
  classes.reduce((left, right) => (rank(left) >= rank(right) ? left : right), 'any');

export const weakestPrivacy = (...classes: readonly PrivacyClass[]): PrivacyClass =>
  classes.reduce((left, right) => (rank(left) <= rank(right) ? left : right), 'local');

/** From `zdr` up a run is private: its texts are never stored and its state never reused by another key. */
export const isPrivate = (value: PrivacyClass): boolean => satisfiesPrivacy(value, 'zdr');

/** 0 for the weakest class, 1 for the strongest: what a soft privacy weight multiplies. */
export const privacyRank = (value: PrivacyClass): number => rank(value) / (privacyClasses.length - 1);
