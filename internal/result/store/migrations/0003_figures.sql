-- Each figure is kept once, here: text is empty for what spate computed, origin says how others were obtained. The
-- entries of earlier versions held their figures too; Go code takes them out (see moveFigures).
ALTER TABLE spate_figures ADD COLUMN origin TEXT NOT NULL DEFAULT '';
