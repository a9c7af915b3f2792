#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/device/error.h"
#include "reprise/device/kernel.h"
#include "reprise/device/memory_pool.h"

namespace reprise::device {

class Device;
class Stream;

/// A point in a stream's work. Streams record it and wait for it; the caller of create_event() owns
/// it.
class Event {
 public:
  virtual ~Event() = default;
  /// True when all work before the last record has finished, or when there was no record.
  /// \throws CaptureError when the record was captured, because a graph's event has no state on the
  /// host, and while the calling thread captures on the device, which invalidates the capture.
  [[nodiscard]] virtual bool is_complete() const = 0;
  /// Blocks the host until is_complete() is true. Throws like is_complete().
  virtual void synchronize() const = 0;
};

/// One captured node, as dumps show it.
struct GraphNode {
  std::string kernel;  // kernel name, "copy" or "fill"
  uint32_t num_blocks = 0;
  bool waits_for_previous = false;  // a barrier stands before this node
};

/// Device work that was recorded: immutable, not yet executable. It can be instantiated several
/// times.
class Graph {
 public:
  virtual ~Graph() = default;
  [[nodiscard]] virtual size_t num_nodes() const noexcept = 0;
  [[nodiscard]] virtual std::vector<GraphNode> nodes() const = 0;
};

/// An executable graph. A launch submits all of its work at once, in order with the other work of
/// the stream. It refers to memory by address: all memory that its nodes use must outlive it.
class GraphExec {
 public:
  virtual ~GraphExec() = default;
  /// Submits the graph once, without allocations and look-ups. \throws CaptureError on a capturing
  /// stream, whose capture becomes invalid: graphs do not nest.
  virtual void launch(Stream& stream) = 0;
  [[nodiscard]] virtual size_t num_nodes() const noexcept = 0;
  /// Memory of the executable itself on host and device, without the pool.
  [[nodiscard]] virtual size_t bytes() const noexcept = 0;
  /// Takes over the arguments of a graph with the same sequence of kernels and grid sizes.
  /// Returns false, changing nothing, when the two differ in shape.
  [[nodiscard]] virtual bool update(const Graph& graph) = 0;
};

/// The work that a stream was asked to do since it was made. A graph launch counts once for all its
/// nodes, so the counters show the launches that replay saves.
struct LaunchCounters {
  uint64_t kernel_launches = 0;  // eager launches, copies and fills; not copies from or to the host
  uint64_t graph_launches = 0;
  uint64_t captured_launches = 0;  // recorded instead of run

  [[nodiscard]] uint64_t submissions() const noexcept { return kernel_launches + graph_launches; }
};

/// In-order queue of device work; belongs to one thread at a time.
///
/// States: idle -> capturing (begin_capture, or wait for an event of a capturing stream) -> idle
/// (end_capture or abort_capture where the capture began). While capturing, launches, copies and
/// fills are recorded and not run. Forbidden are synchronize(), copies from or to the host, graph
/// launches, a second begin_capture(), waits for events from outside the capture, and on the
/// capturing thread Device::allocate, the destruction of a Buffer and host calls of any Event. They
/// throw CaptureError (destroying cannot) and make the capture invalid; from then on every
/// recording call throws the first reason, until the capture is ended or aborted. Other threads are
/// not affected.
///
/// A launch of zero blocks has no effect: it is not run, recorded or counted. \throws DeviceError
/// for arguments longer than kMaxLaunchArgumentBytes or a kernel without code for this device.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual void launch(const Launch& launch) = 0;
  /// Device-to-device copy of `bytes` bytes between ranges that do not overlap; recordable.
  virtual void copy(void* destination, const void* source, size_t bytes) = 0;
  /// Sets `bytes` bytes; recordable.
  virtual void fill(void* destination, std::byte value, size_t bytes) = 0;

  /// Host-to-device: the source may be reused when the call returns.
  virtual void copy_from_host(void* destination, const void* source, size_t bytes) = 0;
  /// Device-to-host: waits for the stream, then for the copy.
  virtual void copy_to_host(void* destination, const void* source, size_t bytes) = 0;

  virtual void record(Event& event) = 0;
  /// Orders later work of this stream after the event. Waiting for an event of a capturing stream
  /// joins that capture, as on CUDA; the joined stream must be ordered back before the end. An
  /// event whose capture is over can only be recorded again. \throws CaptureError
  virtual void wait(const Event& event) = 0;
  /// Blocks until all submitted work is done. \throws DeviceError for an asynchronous failure.
  virtual void synchronize() = 0;

  virtual void begin_capture() = 0;
  /// \throws CaptureError with the first reason why the capture is invalid, or for a joined stream
  /// that was not ordered back. The stream is idle afterwards in any case, except when it had only
  /// joined: a capture ends on the stream and thread where it began.
  [[nodiscard]] virtual std::unique_ptr<Graph> end_capture() = 0;
  /// Drops the recording. Idle streams ignore it. A stream that had only joined leaves the capture,
  /// which becomes invalid.
  virtual void abort_capture() noexcept = 0;
  [[nodiscard]] virtual bool is_capturing() const noexcept = 0;

  [[nodiscard]] virtual const LaunchCounters& counters() const noexcept = 0;
  [[nodiscard]] virtual Device& device() const noexcept = 0;

 protected:
  Stream() = default;
};

/// An exception-safe capture: it records from construction to finish(), and its destructor aborts a
/// capture that was not finished.
class CaptureScope {
 public:
  explicit CaptureScope(Stream& stream) : stream_(&stream) { stream.begin_capture(); }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  ~CaptureScope() {
    if (stream_ != nullptr) stream_->abort_capture();
  }

  /// Ends the capture. \throws CaptureError
  [[nodiscard]] std::unique_ptr<Graph> finish() && {
    return std::exchange(stream_, nullptr)->end_capture();
  }

 private:
  Stream* stream_;
};

/// Memory with an owner, returned to its device when destroyed. Addresses are aligned to 4096.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, BufferView view) noexcept : device_(&device), view_(view) {}
  Buffer(Buffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), view_(std::exchange(other.view_, {})) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(view_, other.view_);
    return *this;
  }
  ~Buffer();

  [[nodiscard]] BufferView view() const noexcept { return view_; }
  [[nodiscard]] void* data() const noexcept { return view_.data; }
  [[nodiscard]] size_t bytes() const noexcept { return view_.bytes; }

 private:
  Device* device_ = nullptr;  // must outlive the buffer
  BufferView view_;
};

/// Device memory, in bytes.
struct MemoryInfo {
  size_t total = 0;
  size_t free = 0;
  size_t allocated_here = 0;  // allocated by this Device object and not yet freed
};

/// A place where work runs. Creating objects on it is thread-safe; the created objects are not
/// thread-safe. The device must outlive all objects that it created.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// "cpu", "cuda:0", "fake".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// One line for logs: model, cores or SMs, instruction sets.
  [[nodiscard]] virtual std::string description() const = 0;
  /// Whether the host may read and write device memory by address once the stream is idle.
  [[nodiscard]] virtual bool is_host_accessible() const noexcept { return false; }

  /// Zero-filled memory outside any pool. \throws CaptureError while a stream of this device is
  /// capturing on the calling thread (the capture becomes invalid), OutOfMemory.
  [[nodiscard]] virtual Buffer allocate(size_t bytes) = 0;
  [[nodiscard]] virtual std::unique_ptr<MemoryPool> create_pool() = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> create_stream() = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> create_event() = 0;
  /// \throws DeviceError
  [[nodiscard]] virtual std::unique_ptr<GraphExec> instantiate(const Graph& graph) = 0;
  /// Loads a kernel's code onto the device before its first launch. Without this call the first
  /// launch loads the code, also in a capture. \throws DeviceError when the kernel has no code for
  /// this device
  virtual void load(const Kernel& /*kernel*/) {}
  [[nodiscard]] virtual MemoryInfo memory() const = 0;

 protected:
  Device() = default;
  friend class Buffer;
  virtual void free(BufferView view) noexcept = 0;
};

inline Buffer::~Buffer() {
  if (device_ != nullptr) device_->free(view_);
}

}  // namespace reprise::device
