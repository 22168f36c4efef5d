import Parser from 'rss-parser@3.13.0';

/** Polls an RSS or Atom feed and emits every item once. The package is fetched when the source is deployed. */
export default {
  name: 'RSS feed',
  version: '0.1.0',
  props: {
    timer: { type: '$.interface.timer', default: { intervalSeconds: 60 } },
    url: { type: 'string', label: 'URL of the feed' },
  },
  // The last hundred ids are remembered.
  dedupe: 'unique',
  methods: {
    idOf: (item) => item.guid ?? item.id ?? item.link,
  },
  async run() {
    const feed = await new Parser().parseURL(this.url);
    for (const item of feed.items) {
      this.$emit(
        { title: item.title, link: item.link, published: item.isoDate },
        { id: this.idOf(item), summary: item.title, ts: Date.parse(item.isoDate) || undefined },
      );
    }
  },
};
