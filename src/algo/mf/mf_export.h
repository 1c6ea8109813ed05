/* algo/mf/mf_export.h - formats of other programs for factorisations. */
#ifndef RUBATO_ALGO_MF_MF_EXPORT_H
#define RUBATO_ALGO_MF_MF_EXPORT_H

#include "algo/frame/algo.h"

extern const struct rbt_algo_export rbt_mf_exports[]; /* ends with a name of NULL */

#endif
