#include "reprise/device/caching_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/device/page_size.h"

namespace reprise::device {
namespace {

// The alignment that vector kernels need; CUDA's allocator has the same. All sizes are multiples of
// it.
constexpr size_t kAlignment = 256;
// The first segment is small, so that a tiny model needs little memory. Later segments double the
// reserved memory, so that few segments are needed. Above kLargestDoubling, doubling would waste
// too much, so segments no longer grow.
constexpr size_t kSmallestSegment = size_t{1} << 20;
constexpr size_t kLargestDoubling = size_t{32} << 20;
// Larger than any real request, and smaller than 2^63, so that rounding up below cannot overflow.
constexpr size_t kLargestRequest = size_t{1} << 62;
constexpr size_t kChunksPerSlab = 64;

std::byte* address(const PoolBlock* block) noexcept { return static_cast<std::byte*>(block->data); }

}  // namespace

CachingPool::CachingPool(MemorySource& source) : source_(&source) {}
CachingPool::CachingPool(std::unique_ptr<MemorySource> source)
    : own_source_(std::move(source)), source_(own_source_.get()) {}

CachingPool::~CachingPool() {
  REPRISE_ASSERT(
      live_bytes_ == 0, "a memory pool is destroyed while {} bytes of it are in use", live_bytes_);
  for (const BufferView& segment : segments_) source_->give_back(segment);
}

PoolBlock* CachingPool::allocate(size_t bytes) {
  if (bytes > kLargestRequest) {
    throw OutOfMemory(
        fmt::format("pool: {} bytes were asked for; no machine has so much memory", bytes));
  }
  const size_t rounded = round_up(std::max<size_t>(bytes, 1), kAlignment);
  Chunk* chunk = find_fit(rounded);
  if (chunk == nullptr) chunk = grow(rounded);
  if (chunk->bytes > rounded) split(chunk, rounded);
  remove_free(chunk);
  chunk->pool = this;
  chunk->references.store(0, std::memory_order_relaxed);
  live_bytes_ += chunk->bytes;
  peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
  return chunk;
}

void CachingPool::release(PoolBlock* block) noexcept {
  auto* chunk = static_cast<Chunk*>(block);
  REPRISE_ASSERT(!chunk->is_free && chunk->pool == this, "block {} released twice", block->data);
  live_bytes_ -= chunk->bytes;
  if (chunk->after != nullptr && chunk->after->is_free) absorb_next(chunk);
  if (chunk->before != nullptr && chunk->before->is_free) {
    chunk = chunk->before;
    remove_free(chunk);
    chunk->is_free = false;
    absorb_next(chunk);
  }
  insert_free(chunk);
}

std::vector<BufferView> CachingPool::free_ranges() const {
  std::vector<BufferView> ranges;
  for (const Chunk* chunk : first_chunks_) {
    for (; chunk != nullptr; chunk = chunk->after) {
      if (chunk->is_free) ranges.push_back({chunk->data, chunk->bytes});
    }
  }
  return ranges;
}

size_t CachingPool::bin_of(size_t bytes) noexcept {
  const size_t units = bytes / kAlignment;
  const auto power = static_cast<size_t>(std::bit_width(units)) - 1;
  const size_t step = power >= 2 ? (units >> (power - 2)) & 3 : (units << (2 - power)) & 3;
  return power * 4 + step;
}

CachingPool::Chunk* CachingPool::find_fit(size_t bytes) const noexcept {
  const size_t bin = bin_of(bytes);
  for (Chunk* chunk = bins_[bin]; chunk != nullptr; chunk = chunk->next_free) {
    if (chunk->bytes >= bytes) return chunk;
  }
  // Every chunk in a higher bin is large enough, and the first chunk of a bin is its smallest.
  const size_t next = bin + 1;
  for (size_t word = next / 64; word < occupied_.size(); ++word) {
    uint64_t bits = occupied_[word];
    if (word == next / 64) bits &= ~uint64_t{0} << (next % 64);
    if (bits != 0) return bins_[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
  }
  return nullptr;
}

CachingPool::Chunk* CachingPool::last_chunk() const noexcept {
  if (first_chunks_.empty()) return nullptr;
  Chunk* last = first_chunks_.back();
  while (last->after != nullptr) last = last->after;
  return last;
}

CachingPool::Chunk* CachingPool::grow(size_t bytes) {
  // The last chunk, if the new segment follows the last segment without a gap; otherwise nullptr.
  Chunk* last = source_->is_contiguous() ? last_chunk() : nullptr;
  const size_t missing = last != nullptr && last->is_free ? bytes - last->bytes : bytes;
  const size_t doubling = std::clamp(reserved_bytes_, kSmallestSegment, kLargestDoubling);
  const size_t wanted = missing > doubling ? round_up(missing, kHugePage) : doubling;
  // Allocate host memory first, so that nothing can throw after the segment is acquired.
  segments_.reserve(segments_.size() + 1);
  first_chunks_.reserve(first_chunks_.size() + 1);
  Chunk* chunk = take_unused();
  BufferView segment;
  try {
    segment = source_->acquire(wanted);
  } catch (...) {
    put_unused(chunk);
    throw;
  }
  chunk->data = segment.data;
  chunk->bytes = segment.bytes;
  chunk->before = last;
  chunk->after = nullptr;
  segments_.push_back(segment);
  reserved_bytes_ += segment.bytes;
  if (last == nullptr) {
    first_chunks_.push_back(chunk);
  } else {
    last->after = chunk;
    if (last->is_free) {
      remove_free(last);
      absorb_next(last);
      chunk = last;
    }
  }
  insert_free(chunk);
  return chunk;
}

// Shortens the free chunk to `bytes` bytes. The remaining bytes become another free chunk.
void CachingPool::split(Chunk* chunk, size_t bytes) {
  Chunk* rest = take_unused();
  remove_free(chunk);
  rest->data = address(chunk) + bytes;
  rest->bytes = chunk->bytes - bytes;
  rest->before = chunk;
  rest->after = chunk->after;
  if (rest->after != nullptr) rest->after->before = rest;
  chunk->after = rest;
  chunk->bytes = bytes;
  insert_free(chunk);
  insert_free(rest);
}

void CachingPool::absorb_next(Chunk* chunk) noexcept {
  Chunk* next = chunk->after;
  if (next->is_free) remove_free(next);
  chunk->bytes += next->bytes;
  chunk->after = next->after;
  if (chunk->after != nullptr) chunk->after->before = chunk;
  put_unused(next);
}

void CachingPool::insert_free(Chunk* chunk) noexcept {
  const size_t bin = bin_of(chunk->bytes);
  const auto comes_first = [chunk](const Chunk* other) {
    if (other->bytes != chunk->bytes) return other->bytes < chunk->bytes;
    return std::less<>{}(address(other), address(chunk));
  };
  Chunk* previous = nullptr;
  Chunk* next = bins_[bin];
  while (next != nullptr && comes_first(next)) {
    previous = next;
    next = next->next_free;
  }
  chunk->is_free = true;
  chunk->previous_free = previous;
  chunk->next_free = next;
  (previous != nullptr ? previous->next_free : bins_[bin]) = chunk;
  if (next != nullptr) next->previous_free = chunk;
  occupied_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void CachingPool::remove_free(Chunk* chunk) noexcept {
  const size_t bin = bin_of(chunk->bytes);
  (chunk->previous_free != nullptr ? chunk->previous_free->next_free : bins_[bin]) =
      chunk->next_free;
  if (chunk->next_free != nullptr) chunk->next_free->previous_free = chunk->previous_free;
  if (bins_[bin] == nullptr) occupied_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  chunk->is_free = false;
}

CachingPool::Chunk* CachingPool::take_unused() {
  if (unused_ == nullptr) {
    slabs_.push_back(std::make_unique<Chunk[]>(kChunksPerSlab));
    for (size_t i = kChunksPerSlab; i-- > 0;) put_unused(&slabs_.back()[i]);
  }
  Chunk* chunk = unused_;
  unused_ = chunk->next_free;
  return chunk;
}

void CachingPool::put_unused(Chunk* chunk) noexcept {
  chunk->is_free = false;
  chunk->next_free = unused_;
  unused_ = chunk;
}

}  // namespace reprise::device
