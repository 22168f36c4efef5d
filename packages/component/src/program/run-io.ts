import type { ChildIO } from './program-types.ts';

/**
 * What code says during one run or hook: only its first reply counts, and nothing once it is over.
 * A `db.set` after the end throws: unlike an event, code relies on what it has set.
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
    },
    close() {
      open = false;
    },
  };
}
