/* test/fuzz/policy_fuzz.c - any text may be given as a rule, as filters or as a priority: it is
 * refused with a sentence, or gives one that can be used. The first byte says which.
 *
 * Texts with a slash name shared objects, which are not opened here: of those only the functions
 * are called that look at nothing but the text. */
#include "base/limits.h"
#include "fuzz/text_fuzz.h"

#include <string.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "policy/filter/chain.h"
#include "policy/filter/filter.h"
#include "policy/priority/priority.h"
#include "policy/rule/rule.h"

static void check_rule(const char *text)
{
    const struct rbt_rule *rule = NULL;
    const struct rbt_rule_table table = {.name = "t", .width = 4, .worker_count = 3};
    struct rbt_rule_instance instance = {0};
    const size_t size = rbt_policy_piece(&rbt_policy_rules, text).name_size;
    RBT_ASSERT(size <= strlen(text) && (text[size] == '\0' || text[size] == ':'));
    if (strchr(text, '/') != NULL) {
        return;
    }
    if (rbt_rule_find(text, &rule) == RBT_OK) {
        RBT_ASSERT(rule != NULL);
        if (rbt_rule_create(rule, text, &table, &instance) != RBT_OK) {
            RBT_ASSERT(rbt_last_error()[0] != '\0');
        }
        rbt_rule_destroy(&instance);
    } else {
        RBT_ASSERT(rbt_last_error()[0] != '\0');
    }
}

static void check_filters(const char *text, bool is_sparse)
{
    static char path[RBT_TEXT_MAX];
    const char *at = text;
    if (strlen(text) < RBT_TEXT_MAX) {
        while (rbt_policy_next_path(&rbt_policy_filters, &at, path)) {
            RBT_ASSERT(at > text && at <= text + strlen(text) && strchr(path, '/') != NULL);
        }
    }
    if (strchr(text, '/') != NULL) {
        return;
    }
    for (int direction = 0; direction < 2; direction++) {
        rbt_chain *chain = NULL;
        const struct rbt_chain_options options = {.text = text,
                                                  .direction = direction == 0 ? RBT_FILTER_PUSH
                                                                              : RBT_FILTER_PULL,
                                                  .table = "t",
                                                  .width = is_sparse ? 100 : 4,
                                                  .type = is_sparse ? RBT_I64 : RBT_F32,
                                                  .layout = is_sparse ? RBT_SPARSE : RBT_DENSE,
                                                  .worker_count = 3};
        if (rbt_chain_create(&options, &chain) != RBT_OK) {
            RBT_ASSERT(chain == NULL && rbt_last_error()[0] != '\0');
        }
        rbt_chain_destroy(chain);
    }
}

static void check_priority(const char *text)
{
    struct rbt_priority_policy policy = {0};
    if (strchr(text, '/') != NULL) {
        return;
    }
    if (rbt_priority_find(text, &policy) == RBT_OK) {
        RBT_ASSERT(policy.name != NULL);
    } else {
        RBT_ASSERT(rbt_last_error()[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) {
        return 0;
    }
    char *text = rbt_text_fuzz_string(bytes + 1, size - 1);
    switch (bytes[0] % 4) {
    case 0:
        check_rule(text);
        break;
    case 1:
        check_priority(text);
        break;
    default:
        check_filters(text, bytes[0] % 4 == 3);
        break;
    }
    rbt_free(text);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
