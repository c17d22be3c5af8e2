-- SQLite's step of this number orders the columns of knowledge_relations. Here their order does not matter.
SELECT 1;
