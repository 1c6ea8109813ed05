/* cli/command.h - the commands of rubato, one function each.
 *
 * A command gets the arguments that follow its name and returns the exit code of the program. It
 * prints results to standard output and everything else to standard error. To add one, write
 * cmd_NAME.c, declare it here and add a line to the table in rubato.c. */
#ifndef RUBATO_CLI_COMMAND_H
#define RUBATO_CLI_COMMAND_H

enum {
    RBT_EXIT_OK = 0,
    RBT_EXIT_FAILED = 1, /* anything else */
    RBT_EXIT_USAGE = 2,  /* the command line is wrong */
};

int rbt_cmd_train(int argc, char *const *argv);
int rbt_cmd_simulate(int argc, char *const *argv);
int rbt_cmd_run(int argc, char *const *argv);
int rbt_cmd_coordinator(int argc, char *const *argv);
int rbt_cmd_server(int argc, char *const *argv);
int rbt_cmd_worker(int argc, char *const *argv);
int rbt_cmd_predict(int argc, char *const *argv);
int rbt_cmd_eval(int argc, char *const *argv);
int rbt_cmd_export(int argc, char *const *argv);
int rbt_cmd_bench(int argc, char *const *argv);
int rbt_cmd_gen(int argc, char *const *argv);
int rbt_cmd_keygen(int argc, char *const *argv);
int rbt_cmd_plot(int argc, char *const *argv);
int rbt_cmd_info(int argc, char *const *argv);

#endif
