/* algo/lda/lda_model.h - what topics say about documents.
 *
 * The model has the array "words" (width K): row w is how often word w, from 1 on, has each topic;
 * the settings "alpha", "beta", "vocabulary" (V), "documents" and "tokens" (how many training had),
 * "documents_loglik", the documents' part of the training data's log-likelihood, and "text" (1: the
 * words were numbered here, as they were found in text; 0: numbers are those of the data or of a
 * file of words); and, if somebody said what the words are, the texts "words".
 *
 *     phi_wk = (n_wk + beta) / (n_k + beta V)      how likely word w is in topic k
 *
 * Threads: any number may use a scorer at once. */
#ifndef RUBATO_ALGO_LDA_LDA_MODEL_H
#define RUBATO_ALGO_LDA_LDA_MODEL_H

#include "algo/frame/algo.h"
#include "data/documents.h"

typedef struct rbt_lda_model rbt_lda_model;

/* The model is copied from. Fails with RBT_E_DATA (it does not fit together) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_lda_model_open(const struct rbt_model *model, rbt_lda_model **scorer);

/* Accepts NULL. */
void rbt_lda_model_close(rbt_lda_model *scorer);

/* log Gamma(n + beta) - log Gamma(beta) of whole numbers n, those below `count` from a table. */
enum { RBT_LDA_LOGS = 1024 };
struct rbt_lda_logs {
    double beta;
    double values[RBT_LDA_LOGS];
};
void rbt_lda_logs_init(struct rbt_lda_logs *logs, double beta);

/* The words' part of the joint log-likelihood of words and topics:
 *     sum over k of [ log Gamma(b V) - log Gamma(n_k + b V) + sum over w of logs(n_wk) ]
 * as a sum over topics and one over a row. */
double rbt_lda_logs_row(const struct rbt_lda_logs *logs, const float *row, size_t topic_count);
double rbt_lda_logs_sums(const double *sums, size_t topic_count, double beta_sum);

/* Minus the joint log-likelihood of words and topics, per token. */
RBT_MUST_USE rbt_status rbt_lda_model_objective(const struct rbt_model *model, double *objective);

/* By document completion: topic shares are fitted to every other token of a document, and the rest
 * is scored. Adds "loglik_per_token" and "perplexity" = exp(-loglik_per_token). */
RBT_MUST_USE rbt_status rbt_lda_model_measure(const struct rbt_model *model,
                                              const struct rbt_documents *documents,
                                              struct rbt_metrics *metrics);

/* Fails with RBT_E_DATA if there is nothing to score: no document has two tokens. */
RBT_MUST_USE rbt_status rbt_lda_model_check(const struct rbt_documents *documents);

/* For the registry: a document's topic shares, one line per document; figures. */
rbt_status rbt_lda_model_predict(const struct rbt_model *model,
                                 const struct rbt_predict_options *options);
rbt_status rbt_lda_model_evaluate(const struct rbt_model *model,
                                  const struct rbt_predict_options *options,
                                  struct rbt_metrics *metrics);

#endif
