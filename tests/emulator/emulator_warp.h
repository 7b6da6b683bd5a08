/* Warp intrinsics of emulator.h: shuffles, votes, matches, reductions. Lanes that share a mask must
 * meet at one call; what a lane outside the mask would have given is a NaN. */
#ifndef REPRISE_EMULATOR_WARP_H
#define REPRISE_EMULATOR_WARP_H

template <typename T> EMULATOR_INTRINSIC uint64_t emulator_bits_of(T value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "at most 8 plain bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <typename T> EMULATOR_INTRINSIC T emulator_value_of(uint64_t bits) {
    T value;
    memcpy(static_cast<void *>(&value), &bits, sizeof value);
    return value;
}

EMULATOR_INTRINSIC void __syncwarp(unsigned mask = 0xFFFFFFFFu, EMULATOR_PLACE) {
    emulator_warp(mask, EMULATOR_SYNCHRONIZE, 0, 0, place);
}

/* The value of a lane, or the own one where the lane lies outside the own group of `width`. */
template <typename T>
EMULATOR_INTRINSIC T emulator_shuffle(unsigned mask, T value, int lane, bool inside,
                                      emulator_place place) {
    const int source = inside ? lane : emulator_lane();
    return emulator_value_of<T>(
        emulator_warp(mask, EMULATOR_SHUFFLE, emulator_bits_of(value), source, place));
}

template <typename T>
EMULATOR_INTRINSIC T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMULATOR_PLACE) {
    const int first = emulator_lane() & ~(width - 1);
    return emulator_shuffle(mask, value, first + (lane & (width - 1)), true, place);
}

template <typename T>
EMULATOR_INTRINSIC T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                                     EMULATOR_PLACE) {
    const int me = emulator_lane(), lane = me ^ bits;
    return emulator_shuffle(mask, value, lane, lane < (me & ~(width - 1)) + width, place);
}

template <typename T>
EMULATOR_INTRINSIC T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                                      EMULATOR_PLACE) {
    const int me = emulator_lane(), lane = me + (int)distance;
    return emulator_shuffle(mask, value, lane, lane < (me & ~(width - 1)) + width, place);
}

template <typename T>
EMULATOR_INTRINSIC T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                                    EMULATOR_PLACE) {
    const int me = emulator_lane(), lane = me - (int)distance;
    return emulator_shuffle(mask, value, lane, lane >= (me & ~(width - 1)), place);
}

EMULATOR_INTRINSIC unsigned __ballot_sync(unsigned mask, int predicate, EMULATOR_PLACE) {
    return (unsigned)emulator_warp(mask, EMULATOR_BALLOT, predicate != 0, 0, place);
}

EMULATOR_INTRINSIC int __any_sync(unsigned mask, int predicate, EMULATOR_PLACE) {
    return emulator_warp(mask, EMULATOR_BALLOT, predicate != 0, 0, place) != 0;
}

EMULATOR_INTRINSIC int __all_sync(unsigned mask, int predicate, EMULATOR_PLACE) {
    return emulator_warp(mask, EMULATOR_BALLOT, predicate == 0, 0, place) == 0;
}

template <typename T>
EMULATOR_INTRINSIC unsigned __match_any_sync(unsigned mask, T value, EMULATOR_PLACE) {
    return (unsigned)emulator_warp(mask, EMULATOR_MATCH, emulator_bits_of(value), 0, place);
}

template <typename T>
EMULATOR_INTRINSIC unsigned __match_all_sync(unsigned mask, T value, int *all, EMULATOR_PLACE) {
    const uint64_t same = emulator_warp(mask, EMULATOR_MATCH, emulator_bits_of(value), 0, place);
    *all = same == mask;
    return *all ? mask : 0;
}

/* Of int and unsigned: signed 64 bits hold both. */
#define EMULATOR_REDUCE(name, type, operation)                                                     \
    EMULATOR_INTRINSIC type name(unsigned mask, type value, EMULATOR_PLACE) {                      \
        return (type)emulator_warp(mask, operation, (uint64_t)(int64_t)value, 0, place);           \
    }
EMULATOR_REDUCE(__reduce_add_sync, int, EMULATOR_ADD)
EMULATOR_REDUCE(__reduce_add_sync, unsigned, EMULATOR_ADD)
EMULATOR_REDUCE(__reduce_min_sync, int, EMULATOR_MINIMUM)
EMULATOR_REDUCE(__reduce_min_sync, unsigned, EMULATOR_MINIMUM)
EMULATOR_REDUCE(__reduce_max_sync, int, EMULATOR_MAXIMUM)
EMULATOR_REDUCE(__reduce_max_sync, unsigned, EMULATOR_MAXIMUM)
EMULATOR_REDUCE(__reduce_and_sync, unsigned, EMULATOR_AND)
EMULATOR_REDUCE(__reduce_or_sync, unsigned, EMULATOR_OR)
EMULATOR_REDUCE(__reduce_xor_sync, unsigned, EMULATOR_XOR)
#undef EMULATOR_REDUCE

#endif
