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

/// Marks a point in a stream's work. Streams record an event and wait for it. The caller of
/// create_event() owns it.
class Event {
 public:
  virtual ~Event() = default;
  /// Whether all work before the last record() has finished; true if the event was never recorded.
  /// \throws CaptureError if the event was recorded in a capture, because such an event has no
  /// state on the host. Also throws it while the calling thread captures on the device, and the
  /// capture becomes invalid.
  [[nodiscard]] virtual bool is_complete() const = 0;
  /// Waits on the host until is_complete() is true. Throws like is_complete().
  virtual void synchronize() const = 0;
};

struct GraphNode;

/// Captured device work. It cannot be changed, and must be instantiated before it can run; it may
/// be instantiated several times.
class Graph {
 public:
  virtual ~Graph() = default;
  [[nodiscard]] virtual size_t num_nodes() const noexcept = 0;
  /// The nodes in the order of their work (graph_node.h). They borrow from this graph.
  [[nodiscard]] virtual std::vector<GraphNode> nodes() const = 0;
};

/// A graph that can be launched. A launch submits all of its work at once; the work runs in order
/// with other work of the stream. The graph holds addresses, so all memory that its nodes use must
/// outlive it.
class GraphExec {
 public:
  virtual ~GraphExec() = default;
  /// Submits the graph once, without allocations or look-ups. \throws CaptureError if the stream
  /// captures, because graphs cannot contain graphs. The capture then becomes invalid.
  virtual void launch(Stream& stream) = 0;
  [[nodiscard]] virtual size_t num_nodes() const noexcept = 0;
  /// Memory of the executable graph itself, on the host and on the device, without the pool.
  [[nodiscard]] virtual size_t bytes() const noexcept = 0;
  /// Replaces the arguments of all nodes by those of `graph`. Returns false and changes nothing if
  /// `graph` has other kernels or other grid sizes.
  [[nodiscard]] virtual bool update(const Graph& graph) = 0;
};

/// The work that a stream was given since it was created. A graph launch counts as one submission,
/// whatever its number of nodes, so the counters show how many launches a replay saves.
struct LaunchCounters {
  // Eager launches, copies and fills. Copies between host and device do not count.
  uint64_t kernel_launches = 0;
  uint64_t graph_launches = 0;
  uint64_t captured_launches = 0;  // recorded by a capture instead of run

  [[nodiscard]] uint64_t submissions() const noexcept { return kernel_launches + graph_launches; }
};

/// A queue of device work that runs in order. Belongs to one thread at a time.
///
/// States: idle, then capturing (after begin_capture(), or after a wait for an event of a capturing
/// stream), then idle again (after end_capture() or abort_capture() on the stream where the capture
/// began). While a stream captures, launches, copies and fills are recorded and not run. These
/// calls are forbidden: graph launches, a second begin_capture(), waits for events from outside of
/// the capture, and on the capturing thread everything that CUDA calls unsafe: synchronize() and
/// copies from or to the host of any stream, Device::allocate(), destroying a Buffer, any Event on
/// the host. A forbidden call throws CaptureError (destroying a Buffer cannot throw) and makes the
/// capture invalid. All later recording calls throw the same reason, until the capture is ended or
/// aborted. Launches on other streams, and other threads, are not affected.
///
/// A launch of zero blocks does nothing: it is not run, recorded or counted. \throws DeviceError if
/// the arguments are longer than kMaxLaunchArgumentBytes, or if the kernel has no code for this
/// device
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual void launch(const Launch& launch) = 0;
  /// Copies bytes on the device, between ranges that do not overlap. May be captured.
  virtual void copy(void* destination, const void* source, size_t bytes) = 0;
  /// Sets `bytes` bytes to `value`. May be captured.
  virtual void fill(void* destination, std::byte value, size_t bytes) = 0;

  /// Copies from host to device. The caller may reuse `source` when the call returns.
  virtual void copy_from_host(void* destination, const void* source, size_t bytes) = 0;
  /// Copies from device to host. Waits for all work of the stream and for the copy.
  virtual void copy_to_host(void* destination, const void* source, size_t bytes) = 0;

  virtual void record(Event& event) = 0;
  /// Makes later work of this stream wait for the event. If the event was recorded by a stream that
  /// captures, this stream joins that capture, as in CUDA. Before the capture ends, the stream
  /// where it began must wait for an event of the joined stream. An event of a capture that is over
  /// can only be recorded again. \throws CaptureError
  virtual void wait(const Event& event) = 0;
  /// Waits until all submitted work is done. \throws DeviceError if that work failed
  virtual void synchronize() = 0;

  virtual void begin_capture() = 0;
  /// Ends the capture. Must be called on the stream and the thread where it began. The stream is
  /// idle afterwards, also if end_capture() throws, unless the stream had only joined the capture.
  /// \throws CaptureError with the first reason why the capture is invalid, or if the origin does
  /// not wait for a joined stream
  [[nodiscard]] virtual std::unique_ptr<Graph> end_capture() = 0;
  /// Drops the capture. Does nothing on an idle stream. If the stream had only joined, it leaves
  /// the capture, which becomes invalid.
  virtual void abort_capture() noexcept = 0;
  [[nodiscard]] virtual bool is_capturing() const noexcept = 0;

  [[nodiscard]] virtual const LaunchCounters& counters() const noexcept = 0;
  [[nodiscard]] virtual Device& device() const noexcept = 0;

 protected:
  Stream() = default;
};

/// A capture that is safe when exceptions are thrown: the constructor begins it, finish() ends it,
/// and the destructor aborts a capture that is not finished.
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

/// Device memory with an owner. The destructor returns it to its device. Addresses are aligned to
/// 4096.
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

/// The memory of a device, in bytes.
struct MemoryInfo {
  size_t total = 0;
  size_t free = 0;
  size_t allocated_here = 0;  // allocated by this Device object and not yet freed
};

/// A device on which work runs, such as a CPU or a GPU. Any thread may create objects on it, but
/// the created objects are not thread-safe. The device must outlive all objects that it created.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// "cpu", "cuda:0", "fake".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// One short line for logs: model, number of threads or SMs.
  [[nodiscard]] virtual std::string description() const = 0;
  /// Whether the host may read and write device memory directly while the stream is idle.
  [[nodiscard]] virtual bool is_host_accessible() const noexcept { return false; }

  /// Allocates memory outside of pools, filled with zeros. \throws OutOfMemory; CaptureError if the
  /// calling thread captures on a stream of this device (the capture becomes invalid)
  [[nodiscard]] virtual Buffer allocate(size_t bytes) = 0;
  [[nodiscard]] virtual std::unique_ptr<MemoryPool> create_pool() = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> create_stream() = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> create_event() = 0;
  /// \throws DeviceError
  [[nodiscard]] virtual std::unique_ptr<GraphExec> instantiate(const Graph& graph) = 0;
  /// Loads the code of a kernel onto the device. Without this call, its first launch loads the
  /// code, even in a capture. \throws DeviceError if the kernel has no code for this device
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
