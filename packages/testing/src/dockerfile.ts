/** The last stage of a Dockerfile. */
export interface Dockerfile {
  environment: Record<string, string>;
  exposed: number[];
  volumes: string[];
  user: string;
  entrypoint: string[];
  /** The command of the health check. */
  healthcheck: string[];
  /** Packages of `apt-get install`. */
  packages: string[];
}

type Instruction = [name: string, text: string];

/** Lines that end in a backslash go on in the next one; comments are left out. */
function instructionsOf(text: string): Instruction[] {
  return text
    .split('\n')
    .filter((line) => !line.trimStart().startsWith('#'))
    .join('\n')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line): Instruction => {
      const [name = '', ...rest] = line.trim().split(/\s+/);
      return [name.toUpperCase(), rest.join(' ')];
    });
}

/** Parses the instructions that the tests check. @throws Error when one is missing */
export function readDockerfile(text: string): Dockerfile {
  const instructions = instructionsOf(text);
  const last = instructions.slice(instructions.findLastIndex(([name]) => name === 'FROM'));
  const all = (name: string) => last.filter(([one]) => one === name).map(([, rest]) => rest);
  const one = (name: string) => {
    const found = all(name).at(-1);
    if (found === undefined) throw new Error(`The last stage has no ${name}`);
    return found;
  };
  const list = (command: string) => JSON.parse(command.slice(command.indexOf('['))) as string[];
  const variables = all('ENV').flatMap((line) => [...line.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g)]);
  return {
    environment: Object.fromEntries(
      variables.map(([, name = '', quoted, plain = '']) => [name, quoted ?? plain]),
    ),
    exposed: one('EXPOSE').split(' ').map(Number),
    volumes: one('VOLUME').split(' '),
    user: one('USER'),
    entrypoint: list(one('ENTRYPOINT')),
    healthcheck: list(one('HEALTHCHECK')),
    packages: all('RUN').flatMap((line) =>
      [...line.matchAll(/apt-get install ([^&]*)/g)].flatMap(([, names = '']) => names.trim().split(/\s+/)),
    ),
  };
}
