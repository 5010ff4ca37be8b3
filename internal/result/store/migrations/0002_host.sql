-- A team's runs lie on many machines: host is the one whose folder or source is meant. error is what a
-- failed start ended in.
ALTER TABLE spate_runs ADD COLUMN host TEXT NOT NULL DEFAULT '';

ALTER TABLE spate_runs ADD COLUMN error TEXT NOT NULL DEFAULT '';
