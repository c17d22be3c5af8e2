-- No question is asked by it: results are found by their tree and command.
DROP INDEX check_results_passed;
