#include "tests/support/fake_device/fake_device.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/device/caching_pool.h"
#include "reprise/device/cpu/cpu_device_impl.h"
#include "reprise/device/cpu/cpu_stream.h"

namespace reprise::device {
namespace {

constexpr uint64_t kNanosecondsPerSubmission = 1000;

// The call log, the planned failure and the clock of one fake device, which its parts share.
class Script {
 public:
  /// Every call starts here. \throws DeviceError when this call is set to fail
  void enter(std::string call) {
    const std::lock_guard lock(mutex_);
    ++num_calls_;
    const bool fails = is_lost_ || num_calls_ == failing_call_;
    std::string message;
    if (fails) {
      message = fmt::format("fake: call {} ({}) fails as the test asked", num_calls_, call);
    }
    log_.push_back(std::move(call));
    if (!fails) return;
    is_lost_ = is_lost_ || severity_ == DeviceError::Severity::sticky;
    throw DeviceError(message, severity_);
  }

  void fail_call(uint64_t k, DeviceError::Severity severity) {
    const std::lock_guard lock(mutex_);
    num_calls_ = 0;
    failing_call_ = k;
    severity_ = severity;
    is_lost_ = false;
  }

  [[nodiscard]] uint64_t num_calls() const noexcept {
    const std::lock_guard lock(mutex_);
    return num_calls_;
  }
  [[nodiscard]] const std::vector<std::string>& log() const noexcept { return log_; }
  void clear_log() {
    const std::lock_guard lock(mutex_);
    log_.clear();
  }

  void advance_clock(uint64_t submissions) noexcept {
    time_ns_ += submissions * kNanosecondsPerSubmission;
  }
  [[nodiscard]] uint64_t time_ns() const noexcept { return time_ns_; }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> log_;
  uint64_t num_calls_ = 0;
  uint64_t failing_call_ = 0;
  DeviceError::Severity severity_ = DeviceError::Severity::transient;
  bool is_lost_ = false;
  std::atomic<uint64_t> time_ns_{0};
};

class ScriptedMemory final : public MemorySource {
 public:
  ScriptedMemory(Script& script, MemorySource& inner) noexcept : script_(&script), inner_(&inner) {}

  [[nodiscard]] BufferView acquire(size_t bytes) override {
    script_->enter("pool_grow");
    return inner_->acquire(bytes);
  }
  void give_back(BufferView memory) noexcept override { inner_->give_back(memory); }

 private:
  Script* script_;       // owned by the fake device
  MemorySource* inner_;  // owned by the inner device
};

class FakeEvent final : public Event {
 public:
  FakeEvent(Script& script, std::unique_ptr<Event> inner) noexcept
      : script_(&script), inner_(std::move(inner)) {}

  [[nodiscard]] bool is_complete() const override { return inner_->is_complete(); }
  void synchronize() const override {
    script_->enter("event_synchronize");
    inner_->synchronize();
  }
  [[nodiscard]] Event& inner() const noexcept { return *inner_; }

 private:
  Script* script_;  // owned by the fake device
  std::unique_ptr<Event> inner_;
};

class FakeStream final : public Stream {
 public:
  FakeStream(Device& device, Script& script, CpuDevice& inner) noexcept
      : device_(&device), script_(&script), inner_(inner) {}

  void launch(const Launch& launch) override {
    if (launch.num_blocks == 0) return;
    const char* name = launch.kernel != nullptr ? launch.kernel->name : "(no kernel)";
    call(fmt::format("launch {}", name), [&] { inner_.launch(launch); });
  }
  void copy(void* destination, const void* source, size_t bytes) override {
    call("copy", [&] { inner_.copy(destination, source, bytes); });
  }
  void fill(void* destination, std::byte value, size_t bytes) override {
    call("fill", [&] { inner_.fill(destination, value, bytes); });
  }
  void copy_from_host(void* destination, const void* source, size_t bytes) override {
    call("copy_from_host", [&] { inner_.copy_from_host(destination, source, bytes); });
  }
  void copy_to_host(void* destination, const void* source, size_t bytes) override {
    call("copy_to_host", [&] { inner_.copy_to_host(destination, source, bytes); });
  }
  void record(Event& event) override {
    call("record", [&] { inner_.record(dynamic_cast<FakeEvent&>(event).inner()); });
  }
  void wait(const Event& event) override {
    call("wait", [&] { inner_.wait(dynamic_cast<const FakeEvent&>(event).inner()); });
  }
  void synchronize() override {
    call("synchronize", [&] { inner_.synchronize(); });
  }
  void begin_capture() override {
    call("begin_capture", [&] { inner_.begin_capture(); });
  }
  [[nodiscard]] std::unique_ptr<Graph> end_capture() override {
    try {
      script_->enter("end_capture");
    } catch (const DeviceError&) {
      inner_.abort_capture();  // the stream must be idle after end_capture, also when it throws
      throw;
    }
    return inner_.end_capture();
  }
  void abort_capture() noexcept override { inner_.abort_capture(); }
  [[nodiscard]] bool is_capturing() const noexcept override { return inner_.is_capturing(); }
  [[nodiscard]] const LaunchCounters& counters() const noexcept override {
    return inner_.counters();
  }
  [[nodiscard]] Device& device() const noexcept override { return *device_; }

  void launch(GraphExec& inner_exec) {
    call("graph_launch", [&] { inner_exec.launch(inner_); });
  }

 private:
  template <typename Act>
  void call(std::string name, Act act) {
    try {
      script_->enter(std::move(name));
    } catch (const DeviceError& error) {
      if (inner_.is_capturing()) inner_.invalidate_capture(error.what());
      throw;
    }
    const uint64_t before = inner_.counters().submissions();
    act();
    script_->advance_clock(inner_.counters().submissions() - before);
  }

  Device* device_;  // the fake device that made this stream
  Script* script_;  // owned by the device
  CpuStream inner_;
};

class FakeGraphExec final : public GraphExec {
 public:
  explicit FakeGraphExec(std::unique_ptr<GraphExec> inner) noexcept : inner_(std::move(inner)) {}

  void launch(Stream& stream) override {
    auto* fake_stream = dynamic_cast<FakeStream*>(&stream);
    if (fake_stream == nullptr) {
      throw DeviceError("fake: a graph was launched on another device's stream");
    }
    fake_stream->launch(*inner_);
  }
  [[nodiscard]] size_t num_nodes() const noexcept override { return inner_->num_nodes(); }
  [[nodiscard]] size_t bytes() const noexcept override { return inner_->bytes(); }
  [[nodiscard]] bool update(const Graph& graph) override { return inner_->update(graph); }

 private:
  std::unique_ptr<GraphExec> inner_;
};

class FakeDeviceOnCpu final : public FakeDevice {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "fake"; }
  [[nodiscard]] std::string description() const override {
    return "fake device on " + inner_.description();
  }
  [[nodiscard]] bool is_host_accessible() const noexcept override { return true; }
  [[nodiscard]] Buffer allocate(size_t bytes) override {
    script_.enter("allocate");
    return Buffer(*this, inner_.acquire(bytes));
  }
  [[nodiscard]] std::unique_ptr<MemoryPool> create_pool() override {
    return std::make_unique<CachingPool>(pool_memory_);
  }
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override {
    return std::make_unique<FakeStream>(*this, script_, inner_);
  }
  [[nodiscard]] std::unique_ptr<Event> create_event() override {
    return std::make_unique<FakeEvent>(script_, inner_.create_event());
  }
  [[nodiscard]] std::unique_ptr<GraphExec> instantiate(const Graph& graph) override {
    script_.enter("instantiate");
    return std::make_unique<FakeGraphExec>(inner_.instantiate(graph));
  }
  [[nodiscard]] MemoryInfo memory() const override { return inner_.memory(); }

  void fail_call(uint64_t k, DeviceError::Severity severity) override {
    script_.fail_call(k, severity);
  }
  [[nodiscard]] uint64_t num_calls() const noexcept override { return script_.num_calls(); }
  [[nodiscard]] const std::vector<std::string>& call_log() const noexcept override {
    return script_.log();
  }
  void clear_call_log() override { script_.clear_log(); }
  [[nodiscard]] uint64_t virtual_time_ns() const noexcept override { return script_.time_ns(); }

 private:
  void free(BufferView view) noexcept override { inner_.free(view); }

  Script script_;
  CpuDevice inner_{WorkerTeam::Options{.num_workers = 1}};
  ScriptedMemory pool_memory_{script_, inner_.memory_source()};
};

}  // namespace

std::unique_ptr<FakeDevice> create_fake_device() { return std::make_unique<FakeDeviceOnCpu>(); }

}  // namespace reprise::device
