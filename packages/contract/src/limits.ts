/** Limits of the API, in bytes and milliseconds. */
export const LIMITS = {
  apiBody: 6 * 1024 * 1024,
  /** Memory of its JSON value, as estimated: five times its text, which usual ones do not reach. */
  bodyValue: 32 * 1024 * 1024,
  endpointBody: 512 * 1024,
  /** A multipart body with its files, which do not count towards `endpointBody`. */
  multipartBody: 6 * 1024 * 1024,
  propValue: 64 * 1024,
  /** JSON text of all values of a deployment. */
  propValues: 2 * 1024 * 1024,
  /** Props of a component; and timers and HTTP interfaces among them, which cost resources. */
  props: 500,
  interfaces: 20,
  /** JSON text of a definition, or of the props with dynamic ones. */
  definitionBytes: 2 * 1024 * 1024,
  /** Options of a prop, per page, and their JSON text with the context. */
  options: 10_000,
  optionsBytes: 1024 * 1024,
  /** Fields of the credentials of an account, and their JSON text. */
  credentials: 100,
  credentialsBytes: 64 * 1024,
  db: 64 * 1024,
  emit: 6 * 1024 * 1024,
  eventName: 256,
  emitId: 1024,
  logLine: 16 * 1024,
  runMs: 300_000,
  /** Of an options or additionalProps method. */
  configureMs: 30_000,
  memoryMb: 256,
  summaryBytes: 1024,
  retrievable: 100,
  /** Open event streams of a user, in one process. */
  streams: 500,
  /** Of an owner; lists show all of them. */
  subscriptions: 10_000,
  autoSubscriptions: 500,
  apiKeys: 1_000,
  /** Time for which an HTTP call waits for respond(). */
  replyMs: 30_000,
  /** Body of a reply; and its headers, of which many clients refuse more. */
  replyBody: 4 * 1024 * 1024,
  replyHeaders: 256,
  replyHeaderBytes: 32 * 1024,
  /** Delayed events that wait, per source; and the longest delay. */
  delayed: 10_000,
  delayMs: 366 * 24 * 3_600_000,
  /** Shown of a test run. */
  testItems: 1000,
  testBytes: 4 * 1024 * 1024,
  /** Within a run. */
  emits: 10_000,
  runBytes: 16 * 1024 * 1024,
  /** Changes of `$service.db`. */
  dbSets: 50_000,
  /**
   * Steps of a workflow; the JSON text of the definitions of their components with all values; and that of their exports
   * and the trigger event.
   */
  steps: 100,
  stepsBytes: 8 * 1024 * 1024,
  stepData: 6 * 1024 * 1024,
  /** Exports and requests of one step. */
  stepEffects: 1000,
} as const;

export const PLATFORM_VERSION = '0.1.0';
