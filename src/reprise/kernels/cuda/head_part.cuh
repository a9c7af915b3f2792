#pragma once

#include "reprise/kernels/cuda/block.cuh"

// The part of a head that a lane of a warp loads for the tensor cores.
namespace reprise::kernels::cuda {

/// Loads kBytes bytes into words, in loads of up to kAlignment bytes.
/// \pre `from` is aligned to kAlignment, or to kBytes if that is less
template <int kBytes, int kAlignment>
REPRISE_DEVICE void load_lane_words(const char* from, uint32_t* words) {
  if constexpr (kBytes > kAlignment) {
    load_lane_words<kBytes / 2, kAlignment>(from, words);
    load_lane_words<kBytes / 2, kAlignment>(from + kBytes / 2, words + kBytes / 8);
  } else if constexpr (kBytes == 16) {
    const Words4 loaded = load_words(from);
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = loaded.word[i];
  } else if constexpr (kBytes == 8) {
    const Words2 loaded = load_two_words(from);
    words[0] = loaded.word[0];
    words[1] = loaded.word[1];
  } else if constexpr (kBytes == 4) {
    words[0] = load_word(from);
  } else {
    static_assert(kBytes == 2);
    words[0] = load_half_word(from);
  }
}

/// How the elements of a head are divided among lanes. Lane = 4 * group + member.
///
/// Keys: of each step of 32 elements, a lane loads the eight from 8 * member on; of a last step of
/// 16 elements, the four from 4 * member on. A word of two elements (or four codes) belongs to
/// sixteen elements that one product takes.
/// Values: of each chunk of 64 elements, a lane loads the eight from 8 * group on. Then follow a
/// chunk of 32 elements and one of 16, if the size of the head needs them, of which a lane loads
/// four and two. So every lane has the elements of one column of each tile of a result.
template <int kHeadDim, int kElementBytes>
struct HeadPart {
  static_assert(kHeadDim % 16 == 0);
  // A row of codes may have a scale after them, so the next row is aligned to 4 bytes only.
  static constexpr int kAlignment = kElementBytes == 1 ? 4 : 16;
  static constexpr int kStepWords = 2 * kElementBytes;  // eight elements
  static constexpr int kSteps = kHeadDim / 32;
  static constexpr bool kHasHalfStep = kHeadDim % 32 != 0;
  static constexpr int kKeyWords = kHeadDim / 16 * kElementBytes;
  static constexpr int kChunks = kHeadDim / 64;
  static constexpr bool kHasHalfChunk = kHeadDim % 64 >= 32;
  static constexpr int kValueWords =
      (kChunks * 8 + (kHasHalfChunk ? 4 : 0) + (kHasHalfStep ? 2 : 0)) * kElementBytes / 4 +
      (kHasHalfStep && kElementBytes == 1 ? 1 : 0);

  static REPRISE_DEVICE void load_key_step(uint32_t* words, const char* row, int step) {
    load_lane_words<8 * kElementBytes, kAlignment>(
        row + (step * 32 + lane_index() % 4 * 8) * kElementBytes, words);
  }
  static REPRISE_DEVICE void load_key(uint32_t (&words)[kKeyWords], const char* row) {
    REPRISE_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      load_key_step(words + step * kStepWords, row, step);
    }
    if constexpr (kHasHalfStep) {
      load_lane_words<4 * kElementBytes, kAlignment>(
          row + (kSteps * 32 + lane_index() % 4 * 4) * kElementBytes, words + kSteps * kStepWords);
    }
  }

  static REPRISE_DEVICE void load_value_chunk(uint32_t* words, const char* row, int chunk) {
    load_lane_words<8 * kElementBytes, kAlignment>(
        row + (chunk * 64 + lane_index() / 4 * 8) * kElementBytes, words);
  }
  static REPRISE_DEVICE void load_value(uint32_t (&words)[kValueWords], const char* row) {
    const int group = lane_index() / 4;
    REPRISE_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      load_value_chunk(words + chunk * kStepWords, row, chunk);
    }
    constexpr int kHalfChunkWord = kChunks * kStepWords;
    if constexpr (kHasHalfChunk) {
      load_lane_words<4 * kElementBytes, kAlignment>(
          row + (kChunks * 64 + group * 4) * kElementBytes, words + kHalfChunkWord);
    }
    if constexpr (kHasHalfStep) {
      load_lane_words<2 * kElementBytes, kAlignment>(
          row + (kHeadDim - 16 + group * 2) * kElementBytes,
          words + kHalfChunkWord + (kHasHalfChunk ? kElementBytes : 0));
    }
  }

  /// Calls act(tile, element): the element of a head that is column `column` of each tile of eight
  /// columns of its result.
  template <typename Act>
  static REPRISE_DEVICE void for_each_element(int column, const Act& act) {
    REPRISE_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      REPRISE_UNROLL
      for (int i = 0; i < 8; ++i) act(chunk * 8 + i, chunk * 64 + column * 8 + i);
    }
    if constexpr (kHasHalfChunk) {
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) act(kChunks * 8 + i, kChunks * 64 + column * 4 + i);
    }
    if constexpr (kHasHalfStep) {
      REPRISE_UNROLL
      for (int i = 0; i < 2; ++i) act(kHeadDim / 8 - 2 + i, kHeadDim - 16 + column * 2 + i);
    }
  }
};

}  // namespace reprise::kernels::cuda
