/* rubato/export.h - what the compiler has to know about the public functions. */
#ifndef RUBATO_EXPORT_H
#define RUBATO_EXPORT_H

#if defined(__GNUC__)
#define RBT_API                 __attribute__((visibility("default")))
#define RBT_MUST_USE            __attribute__((warn_unused_result))
#define RBT_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define RBT_API
#define RBT_MUST_USE
#define RBT_PRINTF(text, first)
#endif

#endif
