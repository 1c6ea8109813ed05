/* base/log_test.c - a line stays a line. */
#include "base/test.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/log.h"

static void test_lines(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *log = open_memstream(&text, &size);
    assert_non_null(log);
    rbt_log(NULL, RBT_LOG_INFO, "server", "nobody listens x=%d", 1);
    rbt_log(log, RBT_LOG_INFO, "server", "listening address=%s", "a:1");
    rbt_log(log, RBT_LOG_WARN, "server", "stopped");
    rbt_log(log, RBT_LOG_WARN, "server", "refused peer=%s", "a\nb\x1b[2J\x7f\xc3\xa9");
    char large[4000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    rbt_log(log, RBT_LOG_INFO, "server", "much %s", large);
    rbt_log_set_quiet(true);
    rbt_log(log, RBT_LOG_INFO, "server", "left out");
    rbt_log_set_quiet(false);
    (void)fclose(log);
    assert_true(isdigit((unsigned char)text[0]));
    assert_int_equal(text[2], ':');
    assert_non_null(strstr(text, " info server: listening address=a:1\n"));
    assert_non_null(strstr(text, " warn server: stopped\n"));
    assert_non_null(strstr(text, "refused peer=a?b?[2J?\xc3\xa9\n"));
    size_t lines = 0;
    for (const char *c = text; *c != '\0'; c++) {
        lines += *c == '\n';
    }
    assert_int_equal(lines, 4);
    assert_true(size < 2000);
    free(text);
}

int main(void)
{
    const struct CMUnitTest list[] = {cmocka_unit_test(test_lines)};
    return cmocka_run_group_tests(list, NULL, NULL);
}
