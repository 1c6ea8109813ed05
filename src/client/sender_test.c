/* client/sender_test.c - the sender ends when it is told to. */
#include "base/test.h"

#include "client/sender.h"

/* Whatever it is doing when it is told: without care the word is lost once in tens of thousands. */
static void it_always_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 40000; i++) {
        rbt_sender *sender = NULL;
        assert_ok(rbt_sender_start(NULL, 0, 1, &sender));
        for (int woken = 0; woken < i % 64; woken++) {
            rbt_sender_wake(sender);
        }
        rbt_sender_stop(sender);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_always_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
