/* The context: options, messages, checked sizes, and an allocator that refuses. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* ---- Creating -------------------------------------------------------------------------------- */

static void test_default_context_has_threads_and_no_message(void) {
    rp_context *context = NULL;
    RP_REQUIRE_OK(NULL, rp_context_create(NULL, &context));
    RP_CHECK(rp_context_threads(context) >= 1, "%d threads", rp_context_threads(context));
    RP_CHECK_STRING(rp_context_message(context), "");
    rp_context_destroy(context);
}

static void test_threads_are_the_ones_asked_for(void) {
    rp_context *context = rp_test_context(7);
    RP_CHECK_EQUAL(rp_context_threads(context), 7);
    RP_CHECK_EQUAL(rp_context_threads(NULL), 1);
    rp_context_destroy(context);
}

static void test_options_of_another_size_are_refused(void) {
    rp_context_options options = RP_CONTEXT_OPTIONS;
    int mark = 0;
    rp_context *context = (rp_context *)&mark;
    options.struct_size--;
    RP_CHECK_STATUS(NULL, rp_context_create(&options, &context), RP_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NULL(context);
    options = (rp_context_options)RP_CONTEXT_OPTIONS;
    options.threads = -1;
    RP_CHECK_STATUS(NULL, rp_context_create(&options, &context), RP_INVALID_ARGUMENT);
    options.threads = RP_MAX_THREADS + 1;
    RP_CHECK_STATUS(NULL, rp_context_create(&options, &context), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(NULL, rp_context_create(NULL, NULL), RP_INVALID_ARGUMENT);
}

static void test_destroying_nothing_is_allowed(void) {
    rp_context_destroy(NULL);
    RP_CHECK_STRING(rp_context_message(NULL), "");
}

/* ---- Ownership ------------------------------------------------------------------------------- */

typedef struct owned_thing {
    rp_owned owned;
    int number;
    int *order, *count;
} owned_thing;

static void note_destroyed(void *object) {
    owned_thing *thing = object;
    thing->order[(*thing->count)++] = thing->number;
}

static void test_context_destroys_what_is_left_newest_first(void) {
    rp_context *context = rp_test_context(1);
    owned_thing things[4];
    int order[4] = {0}, count = 0;
    for (int i = 0; i < 4; i++) {
        things[i] = (owned_thing){.number = i, .order = order, .count = &count};
        rp_own(context, &things[i].owned, &things[i], note_destroyed);
    }
    rp_disown(context, &things[2].owned); /* destroyed alone */
    rp_disown(context, &things[2].owned); /* and never twice */
    rp_context_destroy(context);
    RP_CHECK_EQUAL(count, 3);
    RP_CHECK(order[0] == 3 && order[1] == 1 && order[2] == 0, "order %d %d %d", order[0], order[1],
             order[2]);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void test_fail_returns_its_status_and_leaves_the_message(void) {
    rp_context *context = rp_test_context(1);
    RP_CHECK_STATUS(context, rp_fail(context, RP_BAD_SHAPE, "row %d of %s", 3, "x"), RP_BAD_SHAPE);
    RP_CHECK_STRING(rp_context_message(context), "row 3 of x");
    RP_CHECK_STATUS(context, rp_fail_memory(context, "the tape"), RP_OUT_OF_MEMORY);
    RP_CHECK_MESSAGE(context, "the tape");
    rp_context_destroy(context);
}

static void test_long_message_is_cut(void) {
    rp_context *context = rp_test_context(1);
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    rp_fail(context, RP_BAD_INPUT, "%s", text);
    RP_CHECK_EQUAL(strlen(rp_context_message(context)), 511);
    rp_context_destroy(context);
}

static void test_every_status_has_name_and_text(void) {
    for (int status = RP_OK; status <= RP_INTERNAL_ERROR; status++) {
        RP_CHECK(strncmp(rp_status_name((rp_status)status), "RP_", 3) == 0, "status %d", status);
        RP_CHECK(strlen(rp_status_text((rp_status)status)) > 0, "status %d", status);
    }
    RP_CHECK_STRING(rp_status_name((rp_status)999), "RP_UNKNOWN");
    RP_CHECK_STRING(rp_status_text((rp_status)999), "unknown status");
    RP_CHECK_EQUAL(rp_status_is_poison((rp_status)999), 1);
    RP_CHECK_EQUAL(rp_status_is_poison(RP_OK), 0);
    RP_CHECK_EQUAL(rp_status_is_poison(RP_VALUE_CHANGED), 1);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Serves `left` requests, then refuses. */
typedef struct short_supply {
    int left, live;
} short_supply;

static void *resize_short_supply(void *user, void *block, size_t bytes) {
    short_supply *supply = user;
    if (bytes == 0) {
        supply->live -= block != NULL;
        free(block);
        return NULL;
    }
    if (supply->left <= 0)
        return NULL;
    supply->left--;
    supply->live += block == NULL;
    return realloc(block, bytes);
}

static rp_context_options with_supply(short_supply *supply) {
    rp_context_options options = RP_CONTEXT_OPTIONS;
    options.allocator = (rp_allocator){resize_short_supply, supply};
    return options;
}

static void test_context_without_memory_is_a_status(void) {
    short_supply supply = {0, 0};
    const rp_context_options options = with_supply(&supply);
    rp_context *context = NULL;
    RP_CHECK_STATUS(NULL, rp_context_create(&options, &context), RP_OUT_OF_MEMORY);
    CU_ASSERT_PTR_NULL(context);
}

static void test_every_byte_comes_from_the_given_allocator(void) {
    short_supply supply = {100, 0};
    const rp_context_options options = with_supply(&supply);
    rp_context *context = NULL;
    RP_REQUIRE_OK(NULL, rp_context_create(&options, &context));
    void *block = rp_alloc(context, 3, 5);
    char *copy = rp_copy_string(context, "text");
    RP_CHECK_STRING(copy, "text");
    RP_CHECK_EQUAL(supply.live, 3);
    rp_free(context, block);
    rp_free(context, copy);
    rp_free(context, NULL);
    RP_CHECK_EQUAL(supply.live, 1);
    rp_context_destroy(context);
    RP_CHECK_EQUAL(supply.live, 0);
}

static void test_alloc_clears_and_never_gives_null_for_nothing(void) {
    rp_context *context = rp_test_context(1);
    unsigned char *block = rp_alloc(context, 1000, 3);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    for (int i = 0; i < 3000; i++)
        RP_CHECK(block[i] == 0, "byte %d is %d", i, block[i]);
    void *empty = rp_alloc(context, 0, 8);
    CU_ASSERT_PTR_NOT_NULL(empty);
    rp_free(context, empty);
    rp_free(context, block);
    rp_context_destroy(context);
}

static void test_alloc_of_more_than_size_t_is_refused(void) {
    rp_context *context = rp_test_context(1);
    CU_ASSERT_PTR_NULL(rp_alloc(context, SIZE_MAX / 2, 3));
    CU_ASSERT_PTR_NULL(rp_resize(context, NULL, 3, SIZE_MAX / 2));
    rp_context_destroy(context);
}

static void test_reserve_grows_and_keeps_what_was_there(void) {
    rp_context *context = rp_test_context(1);
    int32_t *array = NULL;
    size_t capacity = 0;
    for (int32_t i = 0; i < 1000; i++) {
        CU_ASSERT_FATAL(rp_reserve(context, &array, &capacity, (size_t)i + 1, sizeof *array));
        array[i] = i;
    }
    RP_CHECK(capacity >= 1000 && capacity < 2000, "capacity %zu", capacity);
    for (int32_t i = 0; i < 1000; i++)
        RP_CHECK_EQUAL(array[i], i);
    rp_free(context, array);
    rp_context_destroy(context);
}

static void test_reserve_that_fails_changes_nothing(void) {
    short_supply supply = {2, 0};
    const rp_context_options options = with_supply(&supply);
    rp_context *context = NULL;
    RP_REQUIRE_OK(NULL, rp_context_create(&options, &context));
    int64_t *array = NULL;
    size_t capacity = 0;
    CU_ASSERT_FATAL(rp_reserve(context, &array, &capacity, 4, sizeof *array));
    int64_t *const before = array;
    const size_t had = capacity;
    RP_CHECK_EQUAL(rp_reserve(context, &array, &capacity, had + 1, sizeof *array), false);
    RP_CHECK_EQUAL(rp_reserve(context, &array, &capacity, SIZE_MAX, sizeof *array), false);
    CU_ASSERT_PTR_EQUAL(array, before);
    RP_CHECK_EQUAL(capacity, had);
    rp_free(context, array);
    rp_context_destroy(context);
    RP_CHECK_EQUAL(supply.live, 0);
}

static void test_checked_arithmetic_refuses_overflow_and_negatives(void) {
    int64_t result = 0;
    CU_ASSERT_TRUE(rp_checked_add(INT64_MAX - 1, 1, &result));
    RP_CHECK_EQUAL(result, INT64_MAX);
    CU_ASSERT_FALSE(rp_checked_add(INT64_MAX, 1, &result));
    CU_ASSERT_FALSE(rp_checked_add(-1, 1, &result));
    CU_ASSERT_FALSE(rp_checked_add(1, -1, &result));
    CU_ASSERT_TRUE(rp_checked_multiply(INT64_MAX / 2, 2, &result));
    RP_CHECK_EQUAL(result, INT64_MAX - 1);
    CU_ASSERT_TRUE(rp_checked_multiply(INT64_MAX, 0, &result));
    RP_CHECK_EQUAL(result, 0);
    CU_ASSERT_FALSE(rp_checked_multiply(INT64_C(1) << 32, INT64_C(1) << 31, &result));
    CU_ASSERT_FALSE(rp_checked_multiply(-1, -1, &result));
}

static const rp_test tests[] = {
    RP_TEST(test_default_context_has_threads_and_no_message),
    RP_TEST(test_threads_are_the_ones_asked_for),
    RP_TEST(test_options_of_another_size_are_refused),
    RP_TEST(test_destroying_nothing_is_allowed),
    RP_TEST(test_context_destroys_what_is_left_newest_first),
    RP_TEST(test_fail_returns_its_status_and_leaves_the_message),
    RP_TEST(test_long_message_is_cut),
    RP_TEST(test_every_status_has_name_and_text),
    RP_TEST(test_context_without_memory_is_a_status),
    RP_TEST(test_every_byte_comes_from_the_given_allocator),
    RP_TEST(test_alloc_clears_and_never_gives_null_for_nothing),
    RP_TEST(test_alloc_of_more_than_size_t_is_refused),
    RP_TEST(test_reserve_grows_and_keeps_what_was_there),
    RP_TEST(test_reserve_that_fails_changes_nothing),
    RP_TEST(test_checked_arithmetic_refuses_overflow_and_negatives),
};
RP_SUITE(context, tests)
