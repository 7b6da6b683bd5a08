/* Symbols are hidden by default; RP_API marks the public ones. */
#ifndef REPRISE_EXPORT_H
#define REPRISE_EXPORT_H

#define RP_VERSION "0.1.0"

#if defined(__GNUC__) || defined(__clang__)
#define RP_API __attribute__((visibility("default")))
#define RP_PRINTF(format_index, first_index)                                                       \
    __attribute__((format(printf, format_index, first_index)))
#else
#define RP_API
#define RP_PRINTF(format_index, first_index)
#endif

#endif
