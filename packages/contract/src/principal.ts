/** Who a request acts for. The gateway signs it, the services trust only the signature. */
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
