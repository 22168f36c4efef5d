/** Emits at the times of a cron expression. */
export default {
  name: 'Clock',
  version: '0.1.0',
  props: {
    timer: { type: '$.interface.timer', default: { cron: '*/5 * * * *' } },
  },
  run(event) {
    this.$emit({ tick: new Date(event.timestamp * 1000).toISOString() });
  },
};
