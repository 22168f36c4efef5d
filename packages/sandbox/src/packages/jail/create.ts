import { createBubblewrapJail } from './bubblewrap.ts';
import type { Jail, JailChoice, JailOptions } from './jail.ts';
import { createLauncherJail } from './launcher.ts';
import { createPlainJail } from './none.ts';

export function createJail(choice: JailChoice, options: JailOptions): Jail {
  if (choice.name === 'bubblewrap') return createBubblewrapJail(choice.bwrap, options);
  if (choice.name === 'launcher') return createLauncherJail(choice, options);
  return createPlainJail(options);
}
