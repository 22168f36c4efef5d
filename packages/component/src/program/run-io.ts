import type { ChildIO } from './program-types.ts';

/** For code that only answers. */
export const NO_EFFECTS: ChildIO = {
  emit() {},
  fault() {},
  log() {},
  respond() {},
  dbSet() {},
  export() {},
  send() {},
};

/**
 * Effects of one run or hook: only its first reply counts, and nothing after its end.
 * A `db.set` after the end throws, since code relies on values that it has set.
 */
export function createRunIO(io: ChildIO): { runIO: ChildIO; close(): void } {
  let open = true;
  let answered = false;
  return {
    runIO: {
      emit: (emit) => open && io.emit(emit),
      fault: (error) => open && io.fault(error),
      log: (line) => io.log(line),
      respond(reply) {
        if (!open || answered) return;
        answered = true;
        io.respond(reply);
      },
      dbSet(key, json) {
        if (!open) throw new Error(`The run is over: ${key} was not set.`);
        io.dbSet(key, json);
      },
      export: (name, json) => open && io.export(name, json),
      send: (kind, request) => open && io.send(kind, request),
    },
    close() {
      open = false;
    },
  };
}
