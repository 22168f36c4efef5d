/** Who makes a request. Services trust only the gateway's signature of it. */
export type Principal =
  | {
      kind: 'user';
      user_id: string;
      /** The API key used, so that streams can end when it is revoked. */
      key_id: string;
      /** Organizations the user is a member of. */
      org_ids: string[];
    }
  | { kind: 'operator' };
