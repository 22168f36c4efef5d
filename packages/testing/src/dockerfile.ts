import { DockerfileParser } from 'dockerfile-ast';

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

export function readDockerfile(text: string): Dockerfile {
  const file = DockerfileParser.parse(text);
  const stage = file.getContainingImage(file.getFROMs().at(-1)!.getRange()!.start)!;
  const argumentsOf = (keyword: string) =>
    stage
      .getInstructions()
      .filter((instruction) => instruction.getKeyword() === keyword)
      .flatMap((instruction) => instruction.getArguments().map((argument) => argument.getValue()));
  const [user] = argumentsOf('USER');
  const [, healthcheck] = /^CMD (.*)$/.exec(argumentsOf('HEALTHCHECK').join(' '))!;
  const variables = stage.getENVs().flatMap((instruction) => instruction.getProperties());
  return {
    environment: Object.fromEntries(variables.map((one) => [one.getName(), one.getValue() ?? ''])),
    exposed: argumentsOf('EXPOSE').map(Number),
    volumes: argumentsOf('VOLUME'),
    user: user!,
    entrypoint: JSON.parse(argumentsOf('ENTRYPOINT').join(' ')),
    healthcheck: JSON.parse(healthcheck!),
    packages: [
      ...argumentsOf('RUN')
        .join(' ')
        .matchAll(/apt-get install ([^&]*)/g),
    ].flatMap(([, names]) => names!.trim().split(' ')),
  };
}
