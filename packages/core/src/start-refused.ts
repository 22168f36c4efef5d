/** The platform cannot start with these settings or data until somebody changes them: a restart is useless. */
export class StartRefused extends Error {
  override readonly name: string = 'StartRefused';
}
