-- The relations as before, their columns in the order of their key: SQLite 3.40's quick_check takes a table without a
-- row id for damaged where they are not.
CREATE TABLE relations_in_order (
  source INTEGER NOT NULL,
  target INTEGER NOT NULL,
  relation TEXT NOT NULL,
  PRIMARY KEY (source, target, relation)
) WITHOUT ROWID;
INSERT INTO relations_in_order (source, target, relation) SELECT source, target, relation FROM knowledge_relations;
DROP TABLE knowledge_relations;
ALTER TABLE relations_in_order RENAME TO knowledge_relations;
CREATE INDEX knowledge_relations_by_target ON knowledge_relations (target, source, relation);
