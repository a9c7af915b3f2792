#pragma once

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "reprise/server/http/body_memory.h"

namespace reprise::server {

/// A body type for Beast's parser. The text grows with the bytes that arrive, and the share of the
/// common memory grows with the text. Private to http_session.
struct RequestBody {
  struct value_type {  // NOLINT(readability-identifier-naming): the name that Beast asks for
    std::string text;
    size_t max_bytes = 0;                      // set after the header was read
    std::shared_ptr<BodyMemory::Share> share;  // set after the header was read
  };

  class reader {  // NOLINT(readability-identifier-naming): likewise
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(&body) {}

    void init(const boost::optional<uint64_t>& length, boost::system::error_code& error) {
      length_ = length;
      error = {};
    }

    /// Fails with body_limit, or with not_enough_memory when no memory is left for the body.
    template <class Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      const size_t num_bytes = boost::asio::buffer_size(buffers);
      error = make_room(num_bytes);
      if (error) return 0;
      for (const boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
        body_->text.append(static_cast<const char*>(buffer.data()), buffer.size());
      }
      return num_bytes;
    }

    void finish(boost::system::error_code& error) { error = {}; }

   private:
    [[nodiscard]] boost::system::error_code make_room(size_t num_bytes) {
      std::string& text = body_->text;
      if (num_bytes > body_->max_bytes - text.size()) {
        return boost::beast::http::error::body_limit;
      }
      const size_t size = text.size() + num_bytes;
      if (size <= text.capacity()) return {};
      // Doubling makes the total cost of copying linear. A known length bounds the last step.
      size_t capacity = std::max(size, 2 * text.capacity());
      if (length_ && *length_ >= size) {
        capacity = std::min(capacity, static_cast<size_t>(*length_));
      }
      if (body_->share && !body_->share->grow_to(capacity)) {
        return boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
      }
      text.reserve(capacity);
      return {};
    }

    value_type* body_;  // the parser's message
    boost::optional<uint64_t> length_;
  };
};

}  // namespace reprise::server
