-- One row per result. Text columns are what lists and filters need; entry holds the whole result but for
-- config and environment, which are large and stand beside it. Times are microseconds since 1970, UTC.
CREATE TABLE spate_runs (
  id          TEXT     NOT NULL PRIMARY KEY,
  identity    TEXT     NOT NULL UNIQUE,
  name        TEXT     NOT NULL,
  format      TEXT     NOT NULL,
  tool        TEXT     NOT NULL,
  state       TEXT     NOT NULL,
  verdict     TEXT     NOT NULL,
  model       TEXT     NOT NULL,
  engine      TEXT     NOT NULL,
  backend     TEXT     NOT NULL,
  gpu         TEXT     NOT NULL,
  started     BIGINT,
  added       BIGINT   NOT NULL,
  command     TEXT     NOT NULL,
  folder      TEXT     NOT NULL,
  source      TEXT     NOT NULL,
  line        BIGINT   NOT NULL,
  config      TEXT     NOT NULL,
  environment TEXT     NOT NULL,
  entry       TEXT     NOT NULL
);

CREATE TABLE spate_labels (
  run   TEXT NOT NULL REFERENCES spate_runs (id) ON DELETE CASCADE,
  name  TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, name)
);

-- text is the figure as it was printed; value is what bounds and sorting compare, null for words.
CREATE TABLE spate_figures (
  run   TEXT     NOT NULL REFERENCES spate_runs (id) ON DELETE CASCADE,
  extra SMALLINT NOT NULL,
  place BIGINT   NOT NULL,
  name  TEXT     NOT NULL,
  text  TEXT     NOT NULL,
  value DOUBLE PRECISION,
  PRIMARY KEY (run, extra, name)
);

CREATE INDEX spate_figures_by_value ON spate_figures (name, value);

CREATE INDEX spate_labels_by_value ON spate_labels (name, value);
