import { type HttpServer, startHttpServer } from './http.ts';

/** A component as registries contain them, and a stand-in for the API of its vendor. */

const APP = `import { axios } from "@pipedream/platform";
export default {
  type: "app",
  app: "shop",
  propDefinitions: {
    status: {
      type: "string",
      label: "Status",
      description: "Only orders with this status",
      async options({ page }) {
        const { statuses } = await this._makeRequest({ path: "/statuses", params: { page: page + 1 } });
        return statuses.map(({ id, title }) => ({ label: title, value: id }));
      },
    },
  },
  methods: {
    _headers() {
      return { authorization: \`Bearer \${this.$auth.oauth_access_token}\` };
    },
    async _makeRequest({ $ = this, path, ...options }) {
      const request = { url: \`\${this.$auth.base_url}\${path}\`, headers: this._headers(), ...options };
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await axios($, request);
        } catch (error) {
          const { status, headers } = error.response ?? {};
          if (status !== 429 || attempt > 3) throw error;
          await new Promise((resolve) => setTimeout(resolve, Number(headers["retry-after"]) * 1000));
        }
      }
    },
    listOrders(options) {
      return this._makeRequest({ path: "/orders", ...options });
    },
    async *paginate({ params }) {
      for (let cursor; ; ) {
        const { orders, next } = await this.listOrders({ params: { ...params, cursor } });
        yield* orders;
        if (!next) return;
        cursor = next;
      }
    },
  },
};`;

const BASE = `import { ConfigurationError } from "@pipedream/platform";
import shop from "../../shop.app.mjs";
export default {
  props: {
    shop,
    db: "$.service.db",
    timer: { type: "$.interface.timer", default: { intervalSeconds: 60 * 15 } },
    status: { propDefinition: [shop, "status"] },
  },
  hooks: {
    async deploy() {
      if (this.status === "unknown") throw new ConfigurationError("There is no such status");
      const { orders } = await this.shop.listOrders({ params: { status: this.status, limit: 2 } });
      for (const order of orders.reverse()) this.emitOrder(order);
    },
  },
  methods: {
    _getSince() { return this.db.get("since"); },
    _setSince(since) { this.db.set("since", since); },
    generateMeta() { throw new Error("generateMeta is not implemented"); },
    emitOrder(order) { this.$emit(order, this.generateMeta(order)); },
  },
};`;

const SOURCE = `import common from "../common/base.mjs";
export default {
  ...common,
  key: "shop-new-order",
  name: "New Order",
  description: "Emit new event when an order is placed",
  version: "0.0.1",
  type: "source",
  dedupe: "unique",
  methods: {
    ...common.methods,
    generateMeta({ id, placed_at }) {
      return { id, summary: \`Order \${id}\`, ts: Date.parse(placed_at) };
    },
  },
  async run() {
    let since = this._getSince();
    for await (const order of this.shop.paginate({ params: { status: this.status, since } })) {
      this.emitOrder(order);
      if (!since || order.placed_at > since) since = order.placed_at;
    }
    this._setSince(since);
  },
};`;

/** Of PUT /registry. */
export const SHOP_COMPONENT = {
  component_code: SOURCE,
  component_path: 'shop/sources/new-order/new-order.mjs',
  modules: { 'shop/shop.app.mjs': APP, 'shop/sources/common/base.mjs': BASE },
  dependencies: { '@pipedream/platform': '^3.0.0' },
};

export interface Order {
  id: number;
  status: string;
  placed_at: string;
}

export interface Shop extends HttpServer {
  orders: Order[];
  /** Paths of the requests, in order. */
  requests: string[];
  /** The next requests are answered 429. */
  busy: number;
}

export const TOKEN = 'shop_token_0123456789';
const PAGE = 2;

export const orderOf = (id: number, status = 'paid'): Order => ({
  id,
  status,
  placed_at: new Date(Date.UTC(2026, 0, id)).toISOString(),
});

/** Lists newest first, in pages of two, to those with the token. */
export async function startShop(): Promise<Shop> {
  const server = await startHttpServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url!, 'http://shop');
    shop.requests.push(req.url!);
    const answer = (status: number, body: object, headers = {}) =>
      res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    if (req.headers.authorization !== `Bearer ${TOKEN}`) return answer(401, { message: 'Bad token' });
    if (shop.busy > 0) {
      shop.busy -= 1;
      return answer(429, { message: 'Too many requests' }, { 'retry-after': '0.1' });
    }
    if (pathname === '/statuses') {
      const page = Number(searchParams.get('page'));
      return answer(200, { statuses: page === 1 ? [{ id: 'paid', title: 'Paid' }] : [] });
    }
    const since = searchParams.get('since') ?? '';
    const found = shop.orders
      .filter(({ status, placed_at }) => status === searchParams.get('status') && placed_at >= since)
      .sort((a, b) => b.id - a.id);
    const from = Number(searchParams.get('cursor') ?? 0);
    const next = from + PAGE < found.length && !searchParams.has('limit') ? String(from + PAGE) : null;
    return answer(200, { orders: found.slice(from, from + PAGE), next });
  });
  const shop: Shop = Object.assign(server, { orders: [], requests: [], busy: 0 });
  return shop;
}
