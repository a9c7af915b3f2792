#pragma once

#include "reprise/kernels/cuda/attention_rows.cuh"
#include "reprise/kernels/cuda/prefill_stream.cuh"

namespace reprise::kernels::cuda {

/// The rows of a tile, in few registers, because they are alive through the whole unit.
struct LatentRows {
  int request;
  int first_token;    // of the request, in the batch
  int first_context;  // positions that the request's first token sees
  int first_row;      // of the tile, in the request
  int num_rows;

  explicit REPRISE_DEVICE LatentRows(const AttentionTile& tile)
      : request(static_cast<int>(tile.r.request)),
        first_token(static_cast<int>(tile.r.first_token)),
        first_context(static_cast<int>(context_of(tile.r, 0))),
        first_row(static_cast<int>(tile.first_row)),
        num_rows(static_cast<int>(tile.num_rows)) {}

  /// The positions that a row sees.
  [[nodiscard]] REPRISE_DEVICE int context(const AttentionKernelArguments& a, int row) const {
    const auto token = static_cast<int>(divide(first_row + row, a.group_size).quotient);
    return first_context + token > 0 ? first_context + token : 0;
  }
  /// The index of a row's first element in a tensor of tokens and heads.
  [[nodiscard]] REPRISE_DEVICE int64_t element(const AttentionKernelArguments& a,
                                               int row,
                                               int64_t token_stride,
                                               int64_t head_stride) const {
    const Divided place = divide(first_row + row, a.group_size);  // token, head
    return (first_token + place.quotient) * token_stride + place.rest * head_stride;
  }
};

/// A block's tile of latent attention: kRowSets times sixteen rows, over positions of the cache
/// that pass through shared memory 32 at a time. A row is a head of a token, and a row of the cache
/// is the key of all heads and begins with their value.
///
/// All eight warps compute scores: a warp takes a part of the depth, of some rows and positions.
/// The parts meet in shared memory, where four lanes of a warp add them, find the weights of a row
/// and leave these in the place of the first part. Then each warp adds some columns of the values
/// for some rows. So every byte of the cache enters shared memory once, and no warp keeps more than
/// its own columns of the sums.
///
/// No sum depends on kRowSets, on the other rows of the tile, or on positions that a row does not
/// see: their weights are zeros.
/// Source of the division of a tile among warps: flashinfer 0.7.2 attention/mla.cuh; differs in
/// that the depth of the scores is divided, too.
template <typename T, int kValueDim, int kKeyDim, int kRowSets>
class LatentTile {
 public:
  static constexpr int kRows = kRowSets * 16;
  /// The floats of a row of sums in shared memory. Rows begin eight banks apart.
  static constexpr int kSumFloats = kValueDim + 8;

  /// The positions are [begin, end). \pre rows.num_rows is at most kRows
  REPRISE_DEVICE LatentTile(const AttentionKernelArguments& a,
                            const LatentRows& rows,
                            int begin,
                            int end)
      : a_(a), rows_(rows), begin_(begin), end_(end) {
    const int row = weighed_row();
    if (row < rows.num_rows) context_ = rows.context(a, row);
  }

  /// Leaves the sums, the largest scores and the totals of the rows in shared memory. All threads
  /// of the block take part. Shared memory must be free before the call.
  REPRISE_DEVICE void attend() {
    load_queries();
    load_positions(begin_, 0);
    commit_copies();
    int slot = 0;
    for (int first = begin_; first < end_; first += kLatentPositions, slot ^= 1) {
      wait_for_copies<0>();
      sync_block();  // the tile is there, and all warps have read the one before
      if (first + kLatentPositions < end_) load_positions(first + kLatentPositions, slot ^ 1);
      commit_copies();
      score(slot);
      sync_block();
      weigh(first);
      sync_block();
      add_values(slot);
    }
    wait_for_copies<0>();
    sync_block();
    leave_sums();
    sync_block();
  }

  // After attend(). The largest score is times log2(e).
  [[nodiscard]] static REPRISE_DEVICE const float* sums_of(int row) {
    return reinterpret_cast<const float*>(shared_memory()) + row * kSumFloats;
  }
  [[nodiscard]] static REPRISE_DEVICE float largest_of(int row) { return ends()[row * 2]; }
  [[nodiscard]] static REPRISE_DEVICE float total_of(int row) { return ends()[row * 2 + 1]; }

 private:
  using Rows = SharedRows<kKeyDim>;
  static constexpr int kWarps = kLatentThreads / kWarpSize;
  static constexpr int kRowBytes = kKeyDim * 2;
  static constexpr int kRowGroups = kRowSets > 2 ? 2 : 1;
  static constexpr int kSets = kRowSets / kRowGroups;  // of sixteen rows, of a warp
  // Scores: warp = 4 * group + part of the depth.
  static constexpr int kPositionGroups = kWarps / (kLatentDepthParts * kRowGroups);
  static constexpr int kScored = kLatentPositions / kPositionGroups;  // positions of a warp
  // Sums: warp = groups of columns * group of rows + group of columns.
  static constexpr int kColumnGroups = kWarps / kRowGroups;
  static constexpr int kColumns = kValueDim / kColumnGroups;  // of a warp
  static_assert(kRowSets == kSets * kRowGroups && kKeyDim % (16 * kLatentDepthParts) == 0 &&
                kColumns % 16 == 0 && kScored % 16 == 0);
  static constexpr int kScoreBytes = kLatentPositions * 4;  // of a row, in a part
  static constexpr int kKeyBytes = kLatentPositions * kRowBytes;
  static constexpr int kScoresOffset = kRows * kRowBytes + 2 * kKeyBytes;
  static constexpr int kFactorsOffset = kScoresOffset + kLatentDepthParts * kRows * kScoreBytes;
  static_assert(kFactorsOffset + kRows * 4 == latent_shared_bytes(kKeyDim, kRows));
  static_assert(kRows * kSumFloats * 4 <= kScoresOffset);

  static REPRISE_DEVICE Rows queries() { return {shared_memory()}; }
  static REPRISE_DEVICE Rows keys(int slot) {
    return {shared_memory() + kRows * kRowBytes + slot * kKeyBytes};
  }
  /// Sixteen bytes of a row of scores. Rows that a warp writes or reads at a time use all banks.
  static REPRISE_DEVICE char* scores(int part, int row, int chunk) {
    const int swizzle = row % 4 * 2 + row / 4 % 2;
    return shared_memory() + kScoresOffset + (part * kRows + row) * kScoreBytes +
           (chunk ^ swizzle) * 16;
  }
  static REPRISE_DEVICE float* factors() {
    return reinterpret_cast<float*>(shared_memory() + kFactorsOffset);
  }
  static REPRISE_DEVICE float* ends() {
    return reinterpret_cast<float*>(shared_memory() + kScoresOffset);
  }
  /// The row whose weights the calling lane computes, together with three other lanes. Only some
  /// warps have such rows.
  static REPRISE_DEVICE int weighed_row() { return warp_index() * 8 + lane_index() / 4; }

  /// Rows that do not exist become zeros.
  REPRISE_DEVICE void load_queries() const {
    const int chunk = thread_index() % 8;
    for (int row = thread_index() / 8; row < kRows; row += kLatentThreads / 8) {
      const bool is_there = row < rows_.num_rows;
      const T* q = static_cast<const T*>(a_.q) + chunk * 8 +
                   rows_.element(a_, is_there ? row : 0, a_.q_token_stride, a_.q_head_stride);
      REPRISE_UNROLL
      for (int i = 0; i < kKeyDim / 64; ++i) {
        copy_words_async(queries().chunk(row, i * 8 + chunk), q + i * 64, is_there);
      }
    }
  }

  /// Starts the copies of 32 positions. Positions from `end` on become zeros and are not read.
  REPRISE_DEVICE void load_positions(int first, int slot) const {
    static_assert(kLatentThreads == kLatentPositions * 8);
    const int index = thread_index() / 8;
    const int chunk = thread_index() % 8;
    const bool is_there = first + index < end_;
    const int64_t row = is_there ? cache_row_index(a_, rows_.request, 0, first + index) : 0;
    const T* key = static_cast<const T*>(a_.key_cache) + row * kKeyDim + chunk * 8;
    REPRISE_UNROLL
    for (int i = 0; i < kKeyDim / 64; ++i) {
      copy_words_async(keys(slot).chunk(index, i * 8 + chunk), key + i * 64, is_there);
    }
  }

  /// How many of the warp's sets of rows have rows, in a group of rows.
  [[nodiscard]] REPRISE_DEVICE int sets_of(int row_group) const {
    return (rows_.num_rows + 15) / 16 - row_group * kSets;
  }

  /// A warp takes every fourth sixteen elements of the depth.
  REPRISE_DEVICE void score(int slot) const {
    const int lane = lane_index();
    const int part = warp_index() % kLatentDepthParts;
    const int group = warp_index() / kLatentDepthParts;
    const int row_group = kRowGroups == 1 ? 0 : group;
    const int first_position = kRowGroups == 1 ? group * kScored : 0;
    const int num_sets = sets_of(row_group);
    if (num_sets <= 0) return;
    const uint32_t query =
        shared_address(queries().chunk(row_group * kSets * 16 + lane % 16, part * 2 + lane / 16));
    const uint32_t key = shared_address(
        keys(slot).chunk(first_position + lane / 16 * 8 + lane % 8, part * 2 + lane / 8 % 2));
    float products[kSets][kScored / 8][4] = {};
    REPRISE_UNROLL
    for (int step = 0; step < kKeyDim / (16 * kLatentDepthParts); ++step) {
      // 64 elements further, a row has the same order of chunks.
      uint32_t left[kSets][4];
      REPRISE_UNROLL
      for (int set = 0; set < kSets; ++set) {
        if (set < num_sets) load_fragments(left[set], query + set * 16 * kRowBytes + step * 128);
      }
      REPRISE_UNROLL
      for (int pair = 0; pair < kScored / 16; ++pair) {
        uint32_t right[4];
        load_fragments(right, key + pair * 16 * kRowBytes + step * 128);
        REPRISE_UNROLL
        for (int set = 0; set < kSets; ++set) {
          if (set < num_sets) multiply_pair(products[set], pair, left[set], right);
        }
      }
    }
    REPRISE_UNROLL
    for (int set = 0; set < kSets; ++set) {
      if (set < num_sets) {
        leave_scores(products[set], part, (row_group * kSets + set) * 16, first_position);
      }
    }
  }

  /// Two neighbouring tiles of eight columns.
  template <int kTiles>
  static REPRISE_DEVICE void multiply_pair(float (&sums)[kTiles][4],
                                           int pair,
                                           const uint32_t (&left)[4],
                                           const uint32_t (&right)[4]) {
    REPRISE_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t column[2] = {right[i * 2], right[i * 2 + 1]};
      multiply_fragments<T>(sums[pair * 2 + i], left, column);
    }
  }

  static REPRISE_DEVICE void leave_scores(const float (&products)[kScored / 8][4],
                                          int part,
                                          int first_row,
                                          int first_position) {
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int tile = 0; tile < kScored / 8; ++tile) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + lane_index() / 4 + half * 8;
        char* chunk = scores(part, row, first_position / 4 + tile * 2 + member / 2);
        *reinterpret_cast<Words2*>(chunk + member % 2 * 8) = {
            {bits_of(products[tile][half * 2]), bits_of(products[tile][half * 2 + 1])}};
      }
    }
  }

  /// The scores of the calling lane's eight positions of its row, products only.
  static REPRISE_DEVICE void take_scores(float (&sums)[8], int row, int eighth) {
    // Rows with odd numbers load their halves in the other order, for other banks.
    const int odd = row % 2;
    float loaded[2][4] = {};
    REPRISE_UNROLL
    for (int part = 0; part < kLatentDepthParts; ++part) {
      REPRISE_UNROLL
      for (int i = 0; i < 2; ++i) {
        const Words4 words = load_words(scores(part, row, eighth * 2 + (i ^ odd)));
        REPRISE_UNROLL
        for (int j = 0; j < 4; ++j) loaded[i][j] += float_of(words.word[j]);
      }
    }
    REPRISE_UNROLL
    for (int j = 0; j < 4; ++j) {
      sums[j] = odd == 0 ? loaded[0][j] : loaded[1][j];
      sums[4 + j] = odd == 0 ? loaded[1][j] : loaded[0][j];
    }
  }

  /// Converts the scores of a tile to weights, relative to the largest score so far.
  REPRISE_DEVICE void weigh(int first) {
    if (warp_index() * 8 >= rows_.num_rows) return;
    const int row = weighed_row();
    const int eighth = lane_index() % 4;
    float weights[8];
    take_scores(weights, row, eighth);
    const int limit = context_ < end_ ? context_ : end_;
    const int seen = limit - first - eighth * 8;  // of the eight positions
    const float exponent = a_.scale * kLog2E;
    float maximum = largest_;
    REPRISE_UNROLL
    for (int i = 0; i < 8; ++i) {
      weights[i] = i < seen ? weights[i] * exponent : 2 * kLowest;
      maximum = larger(maximum, weights[i]);
    }
    maximum = larger(maximum, shuffle_xor(maximum, 1));
    maximum = larger(maximum, shuffle_xor(maximum, 2));
    const float factor = fast_exponential_2(largest_ - maximum);
    largest_ = maximum;
    float total = 0;
    REPRISE_UNROLL
    for (int i = 0; i < 8; ++i) {
      weights[i] = fast_exponential_2(weights[i] - maximum);
      total += weights[i];
    }
    total_ = multiply_add(total_, factor, total);
    Words4 packed;
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) packed.word[i] = pack<T>(weights[i * 2], weights[i * 2 + 1]);
    sync_warp();  // the other lanes of the row have read the scores that the weights replace
    store_words(scores(0, row, eighth), packed);
    if (eighth == 0) factors()[row] = factor;
  }

  /// The sums take the factors of their rows, since larger scores were found.
  REPRISE_DEVICE void scale_sums(int first_row) {
    REPRISE_UNROLL
    for (int set = 0; set < kSets; ++set) {
      const float* of_rows = factors() + first_row + set * 16 + lane_index() / 4;
      const float factor[2] = {of_rows[0], of_rows[8]};
      if (warp_all(factor[0] == 1 && factor[1] == 1)) continue;
      REPRISE_UNROLL
      for (int tile = 0; tile < kColumns / 8; ++tile) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; ++i) sums_[set][tile][i] *= factor[i / 2];
      }
    }
  }

  REPRISE_DEVICE void add_values(int slot) {
    const int lane = lane_index();
    const int row_group = warp_index() / kColumnGroups;
    const int first_row = row_group * kSets * 16;
    const int num_sets = sets_of(row_group);
    if (num_sets <= 0) return;
    scale_sums(first_row);
    const int first_chunk = warp_index() % kColumnGroups * (kColumns / 8);
    REPRISE_UNROLL
    for (int step = 0; step < kLatentPositions / 16; ++step) {
      uint32_t left[kSets][4];
      REPRISE_UNROLL
      for (int set = 0; set < kSets; ++set) {
        if (set >= num_sets) continue;
        load_fragments(
            left[set],
            shared_address(scores(0, first_row + set * 16 + lane % 16, step * 2 + lane / 16)));
      }
      REPRISE_UNROLL
      for (int pair = 0; pair < kColumns / 16; ++pair) {
        uint32_t right[4];
        load_fragments_transposed(right,
                                  shared_address(keys(slot).chunk(
                                      step * 16 + lane % 16, first_chunk + pair * 2 + lane / 16)));
        REPRISE_UNROLL
        for (int set = 0; set < kSets; ++set) {
          if (set < num_sets) multiply_pair(sums_[set], pair, left[set], right);
        }
      }
    }
  }

  REPRISE_DEVICE void leave_sums() {
    const int first_row = warp_index() / kColumnGroups * kSets * 16;
    const int first_column = warp_index() % kColumnGroups * kColumns + lane_index() % 4 * 2;
    REPRISE_UNROLL
    for (int set = 0; set < kSets; ++set) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + set * 16 + half * 8 + lane_index() / 4;
        char* place = shared_memory() + (row * kSumFloats + first_column) * 4;
        REPRISE_UNROLL
        for (int tile = 0; tile < kColumns / 8; ++tile) {
          const float (&sums)[4] = sums_[set][tile];
          *reinterpret_cast<Words2*>(place + tile * 32) = {
              {bits_of(sums[half * 2]), bits_of(sums[half * 2 + 1])}};
        }
      }
    }
    const int row = weighed_row();
    if (row >= kRows) return;
    // The four lanes of a row have the totals of their own positions.
    float total = total_ + shuffle_xor(total_, 1);
    total += shuffle_xor(total, 2);
    if (lane_index() % 4 != 0) return;
    ends()[row * 2] = largest_;
    ends()[row * 2 + 1] = total;
  }

  const AttentionKernelArguments& a_;
  const LatentRows& rows_;
  int begin_;
  int end_;
  // Of weighed_row().
  int context_ = 0;
  float largest_ = kLowest;
  float total_ = 0;  // only of the calling lane's positions
  float sums_[kSets][kColumns / 8][4] = {};
};

}  // namespace reprise::kernels::cuda
