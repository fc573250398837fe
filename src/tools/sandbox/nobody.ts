/** Who the code is when the gateway is root: nobody, on the host as well, so that its limits hold. */
export const nobody = '65534';

export const runsAsRoot = (): boolean => process.getuid?.() === 0;

/** The beginning of a command that gives root up for good. */
export const asNobody = ['setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups', '--'] as const;
