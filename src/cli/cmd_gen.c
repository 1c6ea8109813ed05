/* cli/cmd_gen.c - `rubato gen KIND --out F`: data sets with a known truth, from a seed.
 *
 * Each kind has its own options; what they are turned into is in data/generate.h. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/output.h"
#include "data/generate.h"

struct config {
    const char *out;
    int64_t seed;
    int64_t examples;
    int64_t features;
    int64_t nonzeros;
    int64_t columns;
    int64_t vocabulary;
    int64_t users;
    int64_t items;
    int64_t ratings;
    int64_t rank;
    int64_t documents;
    int64_t words;
    int64_t tokens;
    int64_t topics;
    int64_t points;
    int64_t dims;
    int64_t clusters;
    int64_t inserts;
    int64_t keys;
    double power;
    double noise;
    double spread;
};

#define AT(field) offsetof(struct config, field)

static const struct rbt_option sparse_options[] = {
    {.name = "examples",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e12,
     .value = "10k",
     .help = "Lines of the file.",
     .offset = AT(examples)},
    {.name = "features",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e12,
     .value = "10k",
     .help = "Distinct features, numbered from 1.",
     .offset = AT(features)},
    {.name = "nonzeros",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e6,
     .value = "20",
     .help = "Nonzero features per example.",
     .offset = AT(nonzeros)},
    {.name = "power",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 10,
     .value = "1.1",
     .help = "Exponent of the power law of feature frequencies; 0 makes all equally frequent.",
     .offset = AT(power)},
    {.name = "noise",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 0.5,
     .value = "0.05",
     .help = "Fraction of labels flipped.",
     .offset = AT(noise)},
};

static const struct rbt_option clicks_options[] = {
    {.name = "examples",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 2147483648.0,
     .value = "10k",
     .help = "Lines of the file.",
     .offset = AT(examples)},
    {.name = "columns",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 4096,
     .value = "20",
     .help = "Columns; every line has one value of each, and every value is a feature.",
     .offset = AT(columns)},
    {.name = "vocabulary",
     .type = RBT_OPTION_INT,
     .min = 2,
     .max = 1e9,
     .value = "10k",
     .help = "Distinct values of the last column; the other columns have fewer, down to 2.",
     .offset = AT(vocabulary)},
    {.name = "power",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 10,
     .value = "1.1",
     .help = "Exponent of the power law of value frequencies; 0 makes all equally frequent.",
     .offset = AT(power)},
    {.name = "noise",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 0.5,
     .value = "0.01",
     .help = "Fraction of labels flipped; a fifth of the other labels are clicks.",
     .offset = AT(noise)},
};

static const struct rbt_option ratings_options[] = {
    {.name = "users",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e9,
     .value = "1k",
     .help = "Users, numbered from 1.",
     .offset = AT(users)},
    {.name = "items",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e9,
     .value = "1k",
     .help = "Items, numbered from 1.",
     .offset = AT(items)},
    {.name = "ratings",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e12,
     .value = "50k",
     .help = "Lines of the file.",
     .offset = AT(ratings)},
    {.name = "rank",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1024,
     .value = "8",
     .help = "Length of the factors behind the ratings.",
     .offset = AT(rank)},
    {.name = "noise",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 100,
     .value = "0.1",
     .help = "Standard deviation of the noise added to each rating.",
     .offset = AT(noise)},
};

static const struct rbt_option blobs_options[] = {
    {.name = "points",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 4e9,
     .value = "10k",
     .help = "Lines of the file, after a header.",
     .offset = AT(points)},
    {.name = "dims",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 65536,
     .value = "16",
     .help = "Coordinates of a point.",
     .offset = AT(dims)},
    {.name = "clusters",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e6,
     .value = "10",
     .help = "Number of centres.",
     .offset = AT(clusters)},
    {.name = "spread",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1000,
     .value = "1",
     .help =
         "Standard deviation of a coordinate around its centre; centres lie between -10 and 10.",
     .offset = AT(spread)},
};

static const struct rbt_option stream_options[] = {
    {.name = "inserts",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 4e9,
     .value = "100k",
     .help = "Lines of the file, one key per line.",
     .offset = AT(inserts)},
    {.name = "keys",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e9,
     .value = "10k",
     .help = "Number of possible keys, numbered from 1.",
     .offset = AT(keys)},
    {.name = "power",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 10,
     .value = "1.1",
     .help = "Exponent of the power law of key frequencies; 0 makes all equally frequent.",
     .offset = AT(power)},
};

static const struct rbt_option documents_options[] = {
    {.name = "docs",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 4e9,
     .value = "1k",
     .help = "Documents.",
     .offset = AT(documents)},
    {.name = "vocab",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e9,
     .value = "2k",
     .help = "Distinct words, numbered from 1 by falling frequency.",
     .offset = AT(words)},
    {.name = "tokens",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 4e9,
     .value = "100k",
     .help = "Words of all documents, with repetitions.",
     .offset = AT(tokens)},
    {.name = "topics",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 65536,
     .value = "20",
     .help = "Topics behind the documents.",
     .offset = AT(topics)},
};

static const struct rbt_option common_options[] = {
    {.name = "out",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "File to write; the truth is written to FILE.truth.",
     .offset = AT(out)},
    {.name = "seed",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 9.3e18,
     .value = "1",
     .help = "Seed of all random numbers; equal seeds give equal bytes.",
     .offset = AT(seed)},
};

static rbt_status gen_sparse(const struct config *config)
{
    const struct rbt_generate_sparse options = {.path = config->out,
                                                .seed = (uint64_t)config->seed,
                                                .examples = (uint64_t)config->examples,
                                                .features = (uint64_t)config->features,
                                                .nonzeros = (uint64_t)config->nonzeros,
                                                .power = config->power,
                                                .noise = config->noise};
    if (config->nonzeros > config->features) {
        return rbt_fail(RBT_E_INVALID, "--nonzeros %lld is more than --features %lld",
                        (long long)config->nonzeros, (long long)config->features);
    }
    return rbt_generate_sparse(&options);
}

static rbt_status gen_clicks(const struct config *config)
{
    const struct rbt_generate_clicks options = {.path = config->out,
                                                .seed = (uint64_t)config->seed,
                                                .examples = (uint64_t)config->examples,
                                                .columns = (uint64_t)config->columns,
                                                .vocabulary = (uint64_t)config->vocabulary,
                                                .power = config->power,
                                                .noise = config->noise};
    return rbt_generate_clicks(&options);
}

static rbt_status gen_ratings(const struct config *config)
{
    const struct rbt_generate_ratings options = {.path = config->out,
                                                 .seed = (uint64_t)config->seed,
                                                 .users = (uint64_t)config->users,
                                                 .items = (uint64_t)config->items,
                                                 .ratings = (uint64_t)config->ratings,
                                                 .rank = (uint64_t)config->rank,
                                                 .noise = config->noise};
    if (config->ratings > config->users * config->items) {
        return rbt_fail(RBT_E_INVALID, "--ratings %lld is more than --users times --items",
                        (long long)config->ratings);
    }
    return rbt_generate_ratings(&options);
}

static rbt_status gen_blobs(const struct config *config)
{
    const struct rbt_generate_blobs options = {.path = config->out,
                                               .seed = (uint64_t)config->seed,
                                               .points = (uint64_t)config->points,
                                               .dims = (uint64_t)config->dims,
                                               .clusters = (uint64_t)config->clusters,
                                               .spread = config->spread};
    return rbt_generate_blobs(&options);
}

static rbt_status gen_stream(const struct config *config)
{
    const struct rbt_generate_stream options = {.path = config->out,
                                                .seed = (uint64_t)config->seed,
                                                .inserts = (uint64_t)config->inserts,
                                                .keys = (uint64_t)config->keys,
                                                .power = config->power};
    return rbt_generate_stream(&options);
}

static rbt_status gen_documents(const struct config *config)
{
    const struct rbt_generate_documents options = {.path = config->out,
                                                   .seed = (uint64_t)config->seed,
                                                   .documents = (uint64_t)config->documents,
                                                   .words = (uint64_t)config->words,
                                                   .tokens = (uint64_t)config->tokens,
                                                   .topics = (uint64_t)config->topics};
    if (config->tokens < config->documents) {
        return rbt_fail(RBT_E_INVALID, "--tokens %lld is less than --docs %lld",
                        (long long)config->tokens, (long long)config->documents);
    }
    return rbt_generate_documents(&options);
}

struct kind {
    const char *name;
    const char *summary;
    const struct rbt_option *options;
    size_t option_count;
    rbt_status (*run)(const struct config *config);
};

static const struct kind kinds[] = {
    {"sparse", "sparse examples with two classes, in libsvm's format", sparse_options,
     sizeof sparse_options / sizeof sparse_options[0], gen_sparse},
    {"clicks", "clicks on advertisements, in libsvm's format: columns with heavy tails",
     clicks_options, sizeof clicks_options / sizeof clicks_options[0], gen_clicks},
    {"ratings", "ratings of items by users, made from factors", ratings_options,
     sizeof ratings_options / sizeof ratings_options[0], gen_ratings},
    {"documents", "documents made from topics, as bags of words", documents_options,
     sizeof documents_options / sizeof documents_options[0], gen_documents},
    {"blobs", "points around centres, as csv without a label", blobs_options,
     sizeof blobs_options / sizeof blobs_options[0], gen_blobs},
    {"stream", "a stream of keys, one per line; the truth is how often each occurs", stream_options,
     sizeof stream_options / sizeof stream_options[0], gen_stream},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0], COMMON_COUNT = 2 };

/* Help of all kinds, or of one. */
static void print_help(const struct kind *only)
{
    struct config config;
    printf("Usage: rubato gen %s --out FILE [options]\n\n"
           "Generates a data set from a seed, and a file with the truth behind it.\n\n",
           only != NULL ? only->name : "KIND");
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (only == NULL || only == &kinds[i]) {
            const struct rbt_option_table table = {kinds[i].options, kinds[i].option_count,
                                                   &config};
            printf("%s: %s\n", kinds[i].name, kinds[i].summary);
            rbt_option_help(stdout, &table);
            puts("");
        }
    }
    const struct rbt_option_table common = {common_options, COMMON_COUNT, &config};
    puts("every kind:");
    rbt_option_help(stdout, &common);
    puts("\nExamples:\n"
         "  rubato gen sparse --examples 1M --features 100k --out train.svm\n"
         "  rubato gen clicks --examples 1M --vocabulary 100k --out clicks.svm\n"
         "  rubato gen ratings --users 10k --items 2k --ratings 1M --out ratings.csv\n"
         "  rubato gen documents --docs 20k --tokens 3M --topics 100 --out bag.txt\n"
         "  rubato gen blobs --points 200k --dims 64 --clusters 100 --out blobs.csv\n"
         "  rubato gen stream --inserts 10M --keys 1M --out keys.txt");
}

static const struct kind *find_kind(const char *name)
{
    const char *names[KIND_COUNT];
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
        names[i] = kinds[i].name;
    }
    const char *guess = rbt_option_guess(name, names, KIND_COUNT);
    const rbt_status st = rbt_fail(RBT_E_INVALID, "unrecognised kind of data \"%s\"", name);
    if (guess != NULL) {
        (void)rbt_fail_hint(st, "Did you mean \"%s\"? See \"rubato gen --help\".", guess);
    } else {
        (void)rbt_fail_hint(st, "See \"rubato gen --help\".");
    }
    return NULL;
}

static rbt_status run_kind(const struct kind *kind, int argc, char *const *argv)
{
    struct config config = {0};
    const struct rbt_option_table tables[] = {{kind->options, kind->option_count, &config},
                                              {common_options, COMMON_COUNT, &config}};
    char name[64];
    snprintf(name, sizeof name, "rubato gen %s", kind->name);
    const struct rbt_option_command command = {.name = name, .tables = tables, .table_count = 2};
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st != RBT_OK) {
        return st;
    }
    if (arguments.wants_help) {
        print_help(kind);
        return RBT_OK;
    }
    if (config.out == NULL) {
        st = rbt_fail(RBT_E_INVALID, "option \"--out\" is missing");
        return rbt_fail_hint(st, "Name the file to write: %s --out FILE.", name);
    }
    st = rbt_output_check(config.out, "data"); /* before the truth is written beside it */
    return st != RBT_OK ? st : kind->run(&config);
}

int rbt_cmd_gen(int argc, char *const *argv)
{
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        print_help(NULL);
        return RBT_EXIT_OK;
    }
    if (argc == 0 || argv[0][0] == '-') {
        return rbt_complain(stderr, RBT_EXIT_USAGE, "See \"rubato gen --help\".",
                            "the kind of data is missing");
    }
    const struct kind *kind = find_kind(argv[0]);
    const rbt_status st = kind == NULL ? RBT_E_INVALID : run_kind(kind, argc - 1, argv + 1);
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
