#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/device/memory_pool.h"

namespace reprise::device {

/// The source of a pool's segments: raw device memory, which can be acquired also during a capture.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Whether each result of acquire() starts where the previous one ended.
  [[nodiscard]] virtual bool is_contiguous() const noexcept { return false; }
  /// Returns at least `bytes` bytes, aligned to at least 4096. \throws OutOfMemory
  [[nodiscard]] virtual BufferView acquire(size_t bytes) = 0;
  virtual void give_back(BufferView memory) noexcept = 0;
};

/// A MemoryPool that acquires large segments, splits them into blocks, and keeps the segments until
/// it is destroyed. If segments follow each other without a gap, a block may extend over several of
/// them.
///
/// It uses best fit, splits free blocks and merges neighbouring ones, so a large block that was
/// released serves several smaller requests. If the largest key is captured first, all smaller keys
/// fit into the same memory. The addresses depend only on the sequence of calls, not on the time or
/// on addresses of host objects. So equal calls from equal states return equal addresses.
///
/// Block objects are reused, and all lists are intrusive. So once the segments are large enough,
/// neither allocate() nor release() allocates host memory. Not thread-safe, see MemoryPool.
class CachingPool final : public MemoryPool {
 public:
  /// `source` must outlive the pool.
  explicit CachingPool(MemorySource& source);
  explicit CachingPool(std::unique_ptr<MemorySource> source);
  ~CachingPool() override;

  [[nodiscard]] PoolBlock* allocate(size_t bytes) override;
  void release(PoolBlock* block) noexcept override;
  [[nodiscard]] size_t reserved_bytes() const noexcept override { return reserved_bytes_; }
  [[nodiscard]] size_t live_bytes() const noexcept override { return live_bytes_; }
  [[nodiscard]] size_t peak_live_bytes() const noexcept override { return peak_live_bytes_; }
  [[nodiscard]] std::vector<BufferView> ranges() const override { return segments_; }
  [[nodiscard]] std::vector<BufferView> free_ranges() const override;

 private:
  // A part of a stretch, in use or free. A stretch is a group of segments that follow each other
  // without a gap. Its chunks, in the order of addresses, cover it completely.
  struct Chunk : PoolBlock {
    Chunk* before = nullptr;  // neighbours in the stretch
    Chunk* after = nullptr;
    // Neighbours in the bin. next_free also links objects that are not in use.
    Chunk* previous_free = nullptr;
    Chunk* next_free = nullptr;
    bool is_free = false;
  };

  // Free chunks are sorted into bins by size, with four bins for each power of two (in units of 256
  // bytes). The chunks in a bin are sorted by size, then by address.
  static constexpr size_t kNumBins = size_t{64} * 4;

  static size_t bin_of(size_t bytes) noexcept;
  [[nodiscard]] Chunk* find_fit(size_t bytes) const noexcept;
  Chunk* grow(size_t bytes);
  [[nodiscard]] Chunk* last_chunk() const noexcept;
  void split(Chunk* chunk, size_t bytes);
  void absorb_next(Chunk* chunk) noexcept;
  void insert_free(Chunk* chunk) noexcept;
  void remove_free(Chunk* chunk) noexcept;
  Chunk* take_unused();
  void put_unused(Chunk* chunk) noexcept;

  std::unique_ptr<MemorySource> own_source_;
  MemorySource* source_;  // owned by this pool, or by the device
  std::vector<BufferView> segments_;
  std::vector<Chunk*> first_chunks_;  // the first chunk of each stretch
  std::vector<std::unique_ptr<Chunk[]>> slabs_;
  Chunk* unused_ = nullptr;
  std::array<Chunk*, kNumBins> bins_{};
  std::array<uint64_t, kNumBins / 64> occupied_{};  // a bit is set if the bin has a chunk
  size_t reserved_bytes_ = 0;
  size_t live_bytes_ = 0;
  size_t peak_live_bytes_ = 0;
};

}  // namespace reprise::device
