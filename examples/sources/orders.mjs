/**
 * Receives orders over HTTP and emits each order once, on a channel for big ones too.
 *
 * POST to its endpoint: {"order": "1001", "total": 25}
 */
export default {
  name: 'Orders',
  version: '0.1.0',
  props: {
    http: { type: '$.interface.http', customResponse: true },
    db: '$.service.db',
    limit: { type: 'integer', label: 'Total above which an order is big', optional: true, default: 1000 },
  },
  // A repeated order is not emitted a second time.
  dedupe: 'unique',
  run(event) {
    const { order, total } = event.body ?? {};
    if (order === undefined) {
      this.http.respond({ status: 422, body: { error: 'order is missing' } });
      return;
    }
    const received = (this.db.get('received') ?? 0) + 1;
    this.db.set('received', received);
    this.$emit({ order, total }, { id: order, summary: `Order ${order}` });
    if (total > this.limit) this.$emit({ order, total }, { id: `${order}-big`, name: 'big' });
    console.log(`order ${order} is number ${received}`);
    this.http.respond({ status: 202, body: { received } });
  },
};
