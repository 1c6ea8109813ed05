/* cli/rubato.c - main: finds the subcommand. */
#include <rubato/rubato.h>
#include <stdio.h>

int main(void)
{
    puts("rubato " RBT_VERSION);
    return 0;
}
