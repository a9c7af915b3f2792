#include "reprise/kv_cache/transfer/kv_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <random>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::kv_cache {
namespace {

constexpr int kNumFetchers = 4;
constexpr size_t kMaxWaiting = 1024;

/// A number that nobody guesses, from the system's source of them.
std::string secret_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

void KvExport::save(device::Stream& stream,
                    const KvCacheTensors& cache,
                    std::span<const BlockId> block_ids,
                    std::span<const int32_t> prompt_token_ids) noexcept {
  try {
    const auto num_tokens = static_cast<int32_t>(prompt_token_ids.size());
    if (is_kept() || !exports_->has_room(kv_image_bytes(cache.layout(), num_tokens))) return;
    auto image = std::make_shared<KvImage>();
    image->model = model_;
    image->prompt = prompt_digest(prompt_token_ids, adapter_);
    image->num_tokens = num_tokens;
    image->bytes = save_kv(stream, cache, block_ids, num_tokens);
    if (exports_->add(id_, std::move(image))) num_tokens_ = num_tokens;
  } catch (const std::exception&) {
    exports_->count_refused();  // there is no memory; the consumer computes the prompt
  }
}

KvTransfer::KvTransfer(KvTransferConfig config, const KvCacheLayout& layout, std::string model)
    : config_(std::move(config)),
      layout_(layout),
      model_(std::move(model)),
      exports_(static_cast<size_t>(config_.kv_buffer_size), config_.keep_time) {
  if (config_.engine_id.empty()) config_.engine_id = secret_id();
  if (config_.produces()) server_ = std::make_unique<KvServer>(config_, exports_);
  if (!config_.consumes()) return;
  for (int i = 0; i < kNumFetchers; ++i) threads_.emplace_back([this] { run(); });
}

KvTransfer::~KvTransfer() {
  std::deque<Job> left;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    left.swap(jobs_);
  }
  work_.notify_all();
  for (const Job& job : left) job.on_fetched({.error = "the server is shutting down"});
}

bool KvTransfer::is_loopback() const {
  return config_.connector == KvConnector::shared_memory || config_.kv_ip.starts_with("127.") ||
         config_.kv_ip == "::1" || config_.kv_ip == "localhost";
}

std::shared_ptr<KvExport> KvTransfer::begin_export(std::string_view adapter) {
  return std::make_shared<KvExport>(secret_id(), model_, std::string(adapter), exports_);
}

bool KvTransfer::is_peer(std::string_view host) const {
  return std::ranges::any_of(
      config_.peers, [host](const std::string& peer) { return peer == "*" || peer == host; });
}

void KvTransfer::fetch(KvSource source,
                       std::vector<int32_t> prompt_token_ids,
                       std::string adapter,
                       std::function<void(Fetched)> on_fetched) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() < kMaxWaiting) {
      jobs_.push_back({.source = std::move(source),
                       .prompt_token_ids = std::move(prompt_token_ids),
                       .adapter = std::move(adapter),
                       .on_fetched = std::move(on_fetched)});
      work_.notify_one();
      return;
    }
    ++counts_.num_failed;
  }
  on_fetched({.error = fmt::format("{} other prompts wait to be fetched", kMaxWaiting)});
}

void KvTransfer::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const auto begin = std::chrono::steady_clock::now();
    Fetched fetched = fetch_now(job);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    lock.lock();
    counts_.seconds += took.count();
    if (fetched.image == nullptr) {
      ++counts_.num_failed;
    } else {
      ++counts_.num_fetched;
      counts_.bytes_fetched += fetched.image->bytes.bytes().size();
      counts_.tokens_fetched += static_cast<uint64_t>(fetched.image->num_tokens);
    }
    lock.unlock();
    // From here on only the receiver holds the image.
    job.on_fetched(std::move(fetched));
    lock.lock();
  }
}

std::shared_ptr<const KvImage> KvTransfer::fetch_into_room(const Job& job) {
  const size_t num_bytes =
      kv_image_bytes(layout_, static_cast<int64_t>(job.prompt_token_ids.size()));
  const auto give_back = [held = bytes_held_, num_bytes](const void*) { *held -= num_bytes; };
  *bytes_held_ += num_bytes;
  const std::shared_ptr<const void> room(bytes_held_.get(), give_back);
  if (std::cmp_greater(bytes_held_->load(), config_.kv_buffer_size)) {
    throw Error(
        fmt::format("other prompts fill the kv_buffer_size of {} bytes", config_.kv_buffer_size));
  }
  std::shared_ptr<const KvImage> image =
      fetch_image(config_, layout_, job.source, model_, job.prompt_token_ids, job.adapter, &stop_);
  const KvImage* const address = image.get();
  return {address, [image = std::move(image), room](const KvImage*) {}};
}

KvTransfer::Fetched KvTransfer::fetch_now(const Job& job) {
  const KvSource& from = job.source;
  try {
    return {.image = fetch_into_room(job)};
  } catch (const std::exception& error) {
    return {.error = fmt::format("the keys and values of the prompt could not be fetched from "
                                 "{}:{}: {}",
                                 from.host,
                                 from.port,
                                 error.what())};
  }
}

KvTransferCounts KvTransfer::counts() const {
  const std::lock_guard lock(mutex_);
  KvTransferCounts counts = counts_;
  counts.exports = exports_.counts();
  return counts;
}

}  // namespace reprise::kv_cache
