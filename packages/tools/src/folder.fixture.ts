import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';

/** A temporary folder with these files. */
export async function folderOf(files: Record<string, string>): Promise<TempDir> {
  const directory = await tempDir();
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory.path, path)), { recursive: true });
    await writeFile(join(directory.path, path), text);
  }
  return directory;
}

/** Components as registries contain them: shared apps and bases, several languages, one that is broken. */
export const REGISTRY: Record<string, string> = {
  'chat/package.json': JSON.stringify({
    name: '@apps/chat',
    main: 'chat.app.mjs',
    dependencies: { ms: '^2.0.0' },
  }),
  'chat/chat.app.mjs': `import common from "./common/constants.mjs";
    export default {
      type: "app",
      app: "chat",
      propDefinitions: {
        room: {
          type: "string",
          label: "Room",
          description: "Where it is said",
          async options({ page }) { return this.listRooms(page); },
        },
        limit: { type: "integer", label: "Limit", default: common.LIMIT, optional: true },
      },
      methods: { listRooms() { return ["a"]; } },
    };`,
  'chat/common/constants.mjs': `import app from "../chat.app.mjs"; export default { LIMIT: 20, get app() { return app; } };`,
  'chat/sources/common/base.mjs': `import chat from "../../chat.app.mjs";
    export default {
      props: {
        chat,
        db: "$.service.db",
        timer: { type: "$.interface.timer", default: { intervalSeconds: 60 * 15 } },
        room: { propDefinition: [chat, "room"] },
      },
      methods: { emit(text) { this.$emit({ text }, { id: text, summary: text, ts: Date.now() }); } },
    };`,
  'chat/sources/new-message/new-message.mjs': `import common from "../common/base.mjs";
    import sampleEmit from "./test-event";
    import data from "./words.json" assert { type: "json" };
    export default {
      ...common,
      key: "chat-new-message",
      name: "New Message",
      version: "0.0.1",
      type: "source",
      dedupe: "unique",
      props: {
        ...common.props,
        limit: { propDefinition: [common.props.chat, "limit"], label: "At most" },
        words: { type: "string[]", label: "Words", options: data.words },
        alert: { type: "alert", alertType: "info", content: "Hello" },
        later: { type: "$.inventedLater", label: "Later" },
      },
      sampleEmit,
      async run() { this.emit("hello"); },
    };`,
  'chat/sources/new-message/test-event.mjs': 'export default { id: 1 };',
  'chat/sources/new-message/words.json': '{"words": ["a", "b"]}',
  'chat/actions/send/send.ts': `import { defineAction } from "@pipedream/types";
    import app from "../../../typed/app/typed.app";
    import chat from "@apps/chat";
    enum Kind { Loud = "loud" }
    export default defineAction({
      key: "chat-send",
      name: "Send",
      version: "1.0.0",
      type: "action",
      props: { app, room: { propDefinition: [chat, "room"] }, kind: { type: "string", default: Kind.Loud } },
      async run({ $ }: { $: unknown }): Promise<void> {},
    });`,
  'typed/package.json': JSON.stringify({ name: '@apps/typed', main: 'dist/app/typed.app.mjs' }),
  'typed/app/typed.app.ts': `import { defineApp } from "@pipedream/types";
    import type { Methods } from "../types";
    export default defineApp({ type: "app", app: "typed", methods: {} as Methods });`,
  'typed/dist/app/typed.app.mjs': 'throw new Error("A build is not imported");',
  'old/old.app.js': 'module.exports = { type: "app", app: "old", methods: {} };',
  'old/old-tick.js': `const old = require("./old.app.js");
    module.exports = {
      key: "old-tick",
      name: "Tick",
      version: "0.1.0",
      props: { old, timer: { type: "$.interface.timer" } },
      run(event) { this.$emit(event); },
    };`,
  'old/helper.js': 'module.exports = { key: "not a component" };',
  'broken/sources/syntax/syntax.mjs': 'export default { key: "broken-syntax" ',
  'broken/sources/missing/missing.mjs':
    'import x from "../../gone.mjs"; export default { key: "broken-missing", name: "x", version: "0.0.1", x };',
  'broken/actions/no-version/no-version.mjs':
    'export default { key: "broken-no-version", name: "x", type: "action", run() {} };',
  'broken/node_modules/pkg/sources/x/x.mjs': 'export default { key: "in-a-package", version: "1.0.0" };',
};
