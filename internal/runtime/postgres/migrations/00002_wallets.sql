-- +goose Up
-- The ledger of a wallet belongs to its Secret.
ALTER TABLE capstan.owners DROP CONSTRAINT owners_kind_check;
ALTER TABLE capstan.owners ADD CONSTRAINT owners_kind_check CHECK (kind IN ('Session', 'MCPServer', 'Secret'));
