-- The newest with a word is walked by the key, whoever's and of whichever kind it is: one tree less to write a row a word into.
DROP INDEX knowledge_words_by_agent;
