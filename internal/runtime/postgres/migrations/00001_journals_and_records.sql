-- +goose Up
-- The installation whose data this database has. A database serves one.
CREATE TABLE capstan.installation (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster    text NOT NULL CHECK (octet_length(cluster) BETWEEN 1 AND 64),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- The Sessions and MCPServers that have rows. One that was deleted keeps its row for a while, so that late writes are
-- refused.
CREATE TABLE capstan.owners (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace  text NOT NULL CHECK (octet_length(namespace) BETWEEN 1 AND 63),
    uid        text NOT NULL CHECK (octet_length(uid) BETWEEN 1 AND 64),
    kind       text NOT NULL CHECK (kind IN ('Session', 'MCPServer')),
    name       text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 253),
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    UNIQUE (namespace, uid)
);

CREATE INDEX owners_deleted ON capstan.owners (deleted_at) WHERE deleted_at IS NOT NULL;

-- Entries never change. An entry has its envelope as JSON. Its payload is JSON as well, or what a JSON string has in
-- base64 if it is packed.
CREATE TABLE capstan.journal_entries (
    owner    bigint NOT NULL REFERENCES capstan.owners (id),
    ordinal  bigint NOT NULL CHECK (ordinal > 0),
    envelope bytea NOT NULL CHECK (octet_length(envelope) <= 4096),
    packed   boolean NOT NULL,
    payload  bytea CHECK (octet_length(payload) <= 1048576),
    PRIMARY KEY (owner, ordinal)
);

-- The indexes of stores. A version is never used twice, also after a failover.
CREATE TABLE capstan.record_indexes (
    owner    bigint NOT NULL REFERENCES capstan.owners (id),
    store    text NOT NULL CHECK (octet_length(store) BETWEEN 1 AND 63),
    version  uuid NOT NULL DEFAULT gen_random_uuid(),
    revision bigint NOT NULL CHECK (revision > 0),
    format   integer NOT NULL CHECK (format > 0),
    payload  bytea NOT NULL CHECK (octet_length(payload) <= 1048576),
    PRIMARY KEY (owner, store)
);

-- The values of stores, and the pages of large indexes. They never change.
CREATE TABLE capstan.record_blobs (
    owner   bigint NOT NULL REFERENCES capstan.owners (id),
    store   text NOT NULL CHECK (octet_length(store) BETWEEN 1 AND 63),
    name    text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 128),
    payload bytea NOT NULL CHECK (octet_length(payload) <= 1048576),
    PRIMARY KEY (owner, store, name)
);

-- Payloads are compressed already.
ALTER TABLE capstan.journal_entries ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE capstan.record_indexes ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE capstan.record_blobs ALTER COLUMN payload SET STORAGE EXTERNAL;
