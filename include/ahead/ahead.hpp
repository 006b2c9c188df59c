/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.hpp - the library for C++17: owners that close, exceptions, an istream.
 *
 *     ahead::stream s(ahead::source::path("numbers"));
 *     std::int32_t v;
 *     std::int64_t sum = 0;
 *
 *     while (s.read_i32_be(v))
 *         sum += v;
 *
 * A thin layer, all inline: what a function does, who waits, and on which
 * thread, is said in the C headers.  Throughout:
 *
 *   - A read returns false, or 0, at AHEAD_EOF, and throws ahead::error for
 *     any other status but AHEAD_OK.  AHEAD_TIMEDOUT is thrown as well, and
 *     the call can be made again: for what is left, where it is one for many
 *     bytes, which read_full(), or tell(), says.
 *   - Objects own what they are made from, can be moved, and close in their
 *     destructor, and when another is moved into them, which is silent; close()
 *     throws what closing found.
 *   - get() gives the C object for everything that is not here: a cursor, an
 *     array, swap_buffer.  What has no class has an owner, as merge_ptr.
 *   - The functions of an object that was moved from, or closed, must not be
 *     called, other than destructor, close(), cancel() and assignment. */
#ifndef AHEAD_AHEAD_HPP
#define AHEAD_AHEAD_HPP

#include <ahead/ahead.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <istream>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace ahead
{

/* What went wrong, where, and in words: struct ahead_error as an exception. */
class error : public std::runtime_error
{
  public:
    /* Of a call that leaves no more than its status and errno. */
    explicit error(enum ahead_status status, int os_errno = 0) : error(describe(status, os_errno))
    {
    }

    explicit error(const struct ::ahead_error &what)
        : std::runtime_error(std::string(::ahead_status_name(what.status)) + ": " + what.text),
          what_(what)
    {
    }

    enum ahead_status status() const noexcept
    {
        return what_.status;
    }
    int os_errno() const noexcept
    {
        return what_.os_errno;
    }
    std::uint64_t offset() const noexcept
    {
        return what_.offset;
    }
    std::uint64_t source_offset() const noexcept
    {
        return what_.source_offset;
    }
    const struct ::ahead_error &details() const noexcept
    {
        return what_;
    }

  private:
    static struct ::ahead_error describe(enum ahead_status status, int os_errno)
    {
        struct ::ahead_error e = {};
        std::string text = os_errno ? std::generic_category().message(os_errno) : "it failed";

        e.status = status;
        e.os_errno = os_errno;
        e.source_offset = UINT64_MAX;
        std::snprintf(e.text, sizeof e.text, "%s", text.c_str());
        return e;
    }

    struct ::ahead_error what_;
};

/* Throws for the status of a call that sets errno. */
inline void check(enum ahead_status status)
{
    if (status)
        throw error(status, errno);
}

/* Throws for the status of a call on an object, whose words are at `what`. */
inline void check(enum ahead_status status, const struct ::ahead_error *what)
{
    if (status && what && what->status == status)
        throw error(*what);
    if (status)
        throw error(status);
}

/* The same for a call that reads: whether there was something. */
inline bool check_read(enum ahead_status status, const struct ::ahead_error *what)
{
    if (status != AHEAD_EOF)
        check(status, what);
    return status == AHEAD_OK;
}

/* ---- owners of what has no class here ---- */

template <auto close> struct closer {
    template <class T> void operator()(T *object) const noexcept
    {
        (void)close(object);
    }
};

using pool_ptr = std::unique_ptr<struct ahead_pool, closer<&::ahead_pool_close>>;
using pusher_ptr = std::unique_ptr<struct ahead_pusher, closer<&::ahead_pusher_close>>;
using index_ptr = std::unique_ptr<struct ahead_index, closer<&::ahead_index_close>>;
using spill_reader_ptr =
    std::unique_ptr<struct ahead_spill_reader, closer<&::ahead_spill_reader_close>>;
using spill_writer_ptr =
    std::unique_ptr<struct ahead_spill_writer, closer<&::ahead_spill_writer_close>>;
using merge_ptr = std::unique_ptr<struct ahead_spill_merge, closer<&::ahead_spill_merge_close>>;
using frame_reader_ptr =
    std::unique_ptr<struct ahead_frame_reader, closer<&::ahead_frame_reader_close>>;

/* ---- where bytes come from ---- */

/* A source of your own.  What it throws becomes the ending of the stream:
 * ahead::error as it is, std::system_error as AHEAD_IO with its errno,
 * std::bad_alloc as AHEAD_NOMEM, anything else as AHEAD_IO. */
class source_base
{
  public:
    virtual ~source_base() = default;

    /* Store 1..len bytes at dst; 0: the end.  On the reading thread or the
     * stream's second thread, never on both at once. */
    virtual std::size_t read(void *dst, std::size_t len) = 0;

    /* Make a blocked read() return soon, and every later one.  Any thread. */
    virtual void interrupt() noexcept
    {
    }
};

class source
{
  public:
    static source path(const std::string &path, unsigned flags = 0)
    {
        source s;

        check(::ahead_source_path_flags(&s.src_, path.c_str(), flags));
        return s;
    }

    static source fd(int fd, unsigned flags = 0)
    {
        source s;

        check(::ahead_source_fd(&s.src_, fd, flags));
        return s;
    }

    static source range(int fd, std::uint64_t offset, std::uint64_t length, unsigned flags = 0)
    {
        source s;

        check(::ahead_source_range(&s.src_, fd, offset, length, flags));
        return s;
    }

    /* The bytes stay the caller's, and must stay. */
    static source memory(const void *data, std::size_t len)
    {
        source s;

        check(::ahead_source_memory(&s.src_, data, len));
        return s;
    }

    static source memory(std::string_view bytes)
    {
        return memory(bytes.data(), bytes.size());
    }

    static source lz4_frame(source inner, const struct ahead_lz4_options *opt = nullptr)
    {
        source s;

        check(::ahead_source_lz4_frame(&s.src_, inner.release(), opt));
        return s;
    }

    static source lz4_block(source inner, const struct ahead_lz4_options *opt = nullptr)
    {
        source s;

        check(::ahead_source_lz4_block(&s.src_, inner.release(), opt));
        return s;
    }

    static source detect(source inner, const struct ahead_lz4_options *opt = nullptr,
                         enum ahead_format *found = nullptr)
    {
        source s;

        check(::ahead_source_detect(&s.src_, inner.release(), opt, found));
        return s;
    }

    static source of(std::unique_ptr<source_base> own)
    {
        source s;

        if (!own)
            throw error(AHEAD_INVALID, EINVAL);
        s.src_.ops = own_ops();
        s.src_.ctx = own.release();
        return s;
    }

    /* Takes a C source. */
    explicit source(struct ahead_source src) noexcept : src_(src)
    {
    }

    source(source &&other) noexcept : src_(other.release())
    {
    }
    source &operator=(source &&other) noexcept
    {
        source taken(std::move(other));

        std::swap(src_, taken.src_); /* what was here is closed */
        return *this;
    }
    ~source()
    {
        struct ::ahead_error err = {};

        if (src_.ops && src_.ops->close)
            (void)src_.ops->close(src_.ctx, &err);
    }

    /* Gives it away: to a call that owns it from then on. */
    struct ahead_source release() noexcept
    {
        struct ahead_source src = src_;

        src_ = {};
        return src;
    }

  private:
    source() noexcept : src_()
    {
    }

    static ssize_t own_read(void *ctx, void *dst, size_t len, struct ::ahead_error *err) noexcept
    {
        try {
            std::size_t got = static_cast<source_base *>(ctx)->read(dst, len);

            if (got <= static_cast<std::size_t>(std::numeric_limits<ssize_t>::max()))
                return static_cast<ssize_t>(got);
            say(err, AHEAD_IO, 0, "the source returned more than there can be");
        } catch (const error &e) {
            *err = e.details();
        } catch (const std::system_error &e) {
            say(err, AHEAD_IO, e.code().value(), e.what());
        } catch (const std::bad_alloc &e) {
            say(err, AHEAD_NOMEM, 0, e.what());
        } catch (const std::exception &e) {
            say(err, AHEAD_IO, 0, e.what());
        } catch (...) {
            say(err, AHEAD_IO, 0, "the source threw what is no exception");
        }
        errno = err->os_errno;
        return -1;
    }

    static void
    say(struct ::ahead_error *err, enum ahead_status st, int os_errno, const char *text) noexcept
    {
        err->status = st;
        err->os_errno = os_errno;
        std::snprintf(err->text, sizeof err->text, "%s", text);
    }

    static void own_interrupt(void *ctx) noexcept
    {
        static_cast<source_base *>(ctx)->interrupt();
    }

    static enum ahead_status own_close(void *ctx, struct ::ahead_error *) noexcept
    {
        delete static_cast<source_base *>(ctx);
        return AHEAD_OK;
    }

    static const struct ahead_source_ops *own_ops() noexcept
    {
        static const struct ahead_source_ops ops = [] {
            struct ahead_source_ops o = {};

            o.read = own_read;
            o.interrupt = own_interrupt;
            o.close = own_close;
            return o;
        }();

        return &ops;
    }

    struct ahead_source src_;
};

/* ---- reading ---- */

class stream
{
  public:
    explicit stream(source src, const struct ahead_options &opt = {})
    {
        check(::ahead_open(&s_, src.release(), &opt));
    }

    explicit stream(const std::string &path, const struct ahead_options &opt = {})
    {
        check(::ahead_open_path(&s_, path.c_str(), &opt));
    }

    /* Takes a C stream. */
    explicit stream(struct ahead_stream *s) noexcept : s_(s)
    {
    }

    stream(stream &&other) noexcept : s_(other.release())
    {
    }
    stream &operator=(stream &&other) noexcept
    {
        stream taken(std::move(other));

        std::swap(s_, taken.s_); /* what was here is closed */
        return *this;
    }
    ~stream()
    {
        (void)::ahead_close(s_);
    }

    /* Throws the fault that a read had reached, or that of closing the source. */
    void close()
    {
        struct ::ahead_error what = *::ahead_error(s_);
        enum ahead_status st = ::ahead_close(release());

        if (st == what.status)
            check(st, &what);
        check(st);
    }

    void cancel() noexcept
    {
        ::ahead_cancel(s_);
    }

    /* 1..len bytes; 0 at the end. */
    std::size_t read(void *dst, std::size_t len)
    {
        std::size_t got = 0;

        checked(::ahead_read(s_, dst, len, &got));
        return got;
    }

    /* All of len bytes, or false if not one is left.  Where it throws, *got bytes
     * are at dst, and consumed. */
    bool read_full(void *dst, std::size_t len, std::size_t *got = nullptr)
    {
        return checked(::ahead_read_full(s_, dst, len, got));
    }

    /* read_i32_be(v) and kin: false at the end, and v is as it was. */
#define AHEAD_HPP_READ_(name, type)                                                                \
    bool read_##name(type &v)                                                                      \
    {                                                                                              \
        return checked(::ahead_read_##name(s_, &v));                                               \
    }
#define AHEAD_HPP_READ_BOTH_(name, type)                                                           \
    AHEAD_HPP_READ_(name##_be, type)                                                               \
    AHEAD_HPP_READ_(name##_le, type)

    AHEAD_HPP_READ_(u8, std::uint8_t)
    AHEAD_HPP_READ_(i8, std::int8_t)
    AHEAD_HPP_READ_(bool, bool)
    AHEAD_HPP_READ_BOTH_(u16, std::uint16_t)
    AHEAD_HPP_READ_BOTH_(i16, std::int16_t)
    AHEAD_HPP_READ_BOTH_(u32, std::uint32_t)
    AHEAD_HPP_READ_BOTH_(i32, std::int32_t)
    AHEAD_HPP_READ_BOTH_(u64, std::uint64_t)
    AHEAD_HPP_READ_BOTH_(i64, std::int64_t)
    AHEAD_HPP_READ_BOTH_(f32, float)
    AHEAD_HPP_READ_BOTH_(f64, double)
    AHEAD_HPP_READ_(varint_u32, std::uint32_t)
    AHEAD_HPP_READ_(varint_u64, std::uint64_t)
    AHEAD_HPP_READ_(zigzag_i32, std::int32_t)
    AHEAD_HPP_READ_(zigzag_i64, std::int64_t)

#undef AHEAD_HPP_READ_BOTH_
#undef AHEAD_HPP_READ_

    /* Up to and with `delim`, or the rest of the input without one; false at
     * the end.  Valid until the next call. */
    bool read_until(char delim, std::string_view &line, std::size_t max = 0)
    {
        const std::uint8_t *data = nullptr;
        std::size_t len = 0;
        enum ahead_status st =
            ::ahead_read_until(s_, static_cast<std::uint8_t>(delim), max, &data, &len);

        if (st == AHEAD_TRUNCATED && len > 0)
            st = AHEAD_OK;
        if (!checked(st))
            return false;
        line = std::string_view(reinterpret_cast<const char *>(data), len);
        return true;
    }

    /* What comes next: `want` bytes or more, or what is left in front of the end
     * or of a fault; empty at the end.  Valid until the next call. */
    std::string_view peek(std::size_t want)
    {
        const std::uint8_t *data = nullptr;
        std::size_t len = 0;
        enum ahead_status st = ::ahead_peek(s_, want, &data, &len);
        bool again = st == AHEAD_TIMEDOUT || st == AHEAD_LIMIT || st == AHEAD_NOMEM;

        if ((len == 0 || again) && !checked(st))
            return {};
        return std::string_view(reinterpret_cast<const char *>(data), len);
    }

    void consume(std::size_t n) noexcept
    {
        ::ahead_consume(s_, n);
    }

    /* How many bytes were passed: fewer than n at the end.  Where it throws, tell()
     * says how far it came. */
    std::uint64_t skip(std::uint64_t n)
    {
        std::uint64_t skipped = 0;

        checked(::ahead_skip(s_, n, &skipped));
        return skipped;
    }

    void seek(std::uint64_t offset)
    {
        checked(::ahead_seek(s_, offset));
    }
    std::uint64_t tell() const noexcept
    {
        return ::ahead_tell(s_);
    }
    std::size_t buffered() const noexcept
    {
        return ::ahead_buffered(s_);
    }

    std::uint64_t size()
    {
        std::uint64_t size = 0;

        checked(::ahead_size(s_, &size));
        return size;
    }

    /* Throws if something is left, or the end is not whole. */
    void finish()
    {
        checked(::ahead_finish(s_));
    }

    struct ahead_stats stats() const noexcept
    {
        struct ahead_stats stats = {};

        ::ahead_get_stats(s_, &stats);
        return stats;
    }

    struct ahead_stream *get() const noexcept
    {
        return s_;
    }
    struct ahead_stream *release() noexcept
    {
        return std::exchange(s_, nullptr);
    }

  private:
    bool checked(enum ahead_status st)
    {
        return check_read(st, ::ahead_error(s_));
    }

    struct ahead_stream *s_ = nullptr;
};

/* A streambuf over a stream, without a copy: what an istream looks at is the
 * stream's own buffer.  An istream takes what is thrown for badbit, or throws it
 * on if its exceptions() say so.  With `owner`, the istream that it is the buffer
 * of, a block that is cut short by a fault has its length in gcount() as well;
 * ahead::istream sees to that.  tellg() always works, seekg() where ahead_seek()
 * does, from the end where ahead_size() does. */
class streambuf : public std::streambuf
{
  public:
    explicit streambuf(stream s, std::ios *owner = nullptr) noexcept
        : s_(std::move(s)), owner_(owner)
    {
    }

    /* The stream, standing where the reader does. */
    stream &underlying() noexcept
    {
        give_back();
        return s_;
    }

  protected:
    int_type underflow() override
    {
        if (gptr() == egptr()) {
            std::string_view bytes;

            give_back();
            bytes = s_.peek(1);
            if (bytes.empty())
                return traits_type::eof();
            /* Nobody writes there: there is no pbackfail(). */
            char *base = const_cast<char *>(bytes.data());

            setg(base, base, base + bytes.size());
        }
        return traits_type::to_int_type(*gptr());
    }

    /* An istream forgets the bytes in front of what is thrown here.  So only what
     * has none is thrown, or what its exceptions() ask for. */
    std::streamsize xsgetn(char_type *dst, std::streamsize n) override
    {
        std::streamsize got = 0;

        try {
            while (got < n && !traits_type::eq_int_type(underflow(), traits_type::eof())) {
                std::streamsize some = std::min<std::streamsize>(n - got, egptr() - gptr());

                traits_type::copy(dst + got, gptr(), static_cast<std::size_t>(some));
                setg(eback(), gptr() + some, egptr());
                got += some;
            }
        } catch (const error &) {
            if (got == 0 || !owner_ || (owner_->exceptions() & std::ios_base::badbit))
                throw;
            owner_->setstate(std::ios_base::badbit);
        }
        return got;
    }

    std::streamsize showmanyc() override
    {
        give_back();
        return static_cast<std::streamsize>(s_.buffered());
    }

    pos_type seekoff(off_type by, std::ios_base::seekdir from,
                     std::ios_base::openmode = std::ios_base::in) override
    {
        std::uint64_t here = s_.tell() + static_cast<std::uint64_t>(gptr() - eback());
        std::uint64_t origin = 0, to;

        if (from == std::ios_base::cur)
            origin = here;
        else if (from == std::ios_base::end && ::ahead_size(s_.get(), &origin))
            return failed();
        to = origin + static_cast<std::uint64_t>(by);
        if (by < 0 ? to > origin
                   : to < origin ||
                         to > static_cast<std::uint64_t>(std::numeric_limits<off_type>::max()))
            return failed();
        if (to != here) {
            give_back();
            if (::ahead_seek(s_.get(), to))
                return failed();
        }
        return pos_type(static_cast<off_type>(to));
    }

    pos_type seekpos(pos_type to, std::ios_base::openmode mode = std::ios_base::in) override
    {
        return seekoff(off_type(to), std::ios_base::beg, mode);
    }

  private:
    static pos_type failed()
    {
        return pos_type(off_type(-1));
    }

    void give_back() noexcept
    {
        s_.consume(static_cast<std::size_t>(gptr() - eback()));
        setg(nullptr, nullptr, nullptr);
    }

    stream s_;
    std::ios *owner_;
};

/* An istream that reads ahead. */
class istream : public std::istream
{
  public:
    explicit istream(stream s) : std::istream(nullptr), buf_(std::move(s), this)
    {
        init(&buf_);
    }

    stream &underlying() noexcept
    {
        return buf_.underlying();
    }

  private:
    streambuf buf_;
};

/* ---- where bytes go, and writing ---- */

class sink
{
  public:
    static sink path(const std::string &path)
    {
        sink s;

        check(::ahead_sink_path(&s.sink_, path.c_str()));
        return s;
    }

    static sink fd(int fd, unsigned flags = 0)
    {
        sink s;

        check(::ahead_sink_fd(&s.sink_, fd, flags));
        return s;
    }

    static sink lz4_frame(sink inner, const struct ahead_lz4_encode_options *opt = nullptr)
    {
        sink s;

        check(::ahead_sink_lz4_frame(&s.sink_, inner.release(), opt));
        return s;
    }

    static sink lz4_block(sink inner, const struct ahead_lz4_encode_options *opt = nullptr)
    {
        sink s;

        check(::ahead_sink_lz4_block(&s.sink_, inner.release(), opt));
        return s;
    }

    /* Takes a C sink. */
    explicit sink(struct ahead_sink s) noexcept : sink_(s)
    {
    }

    sink(sink &&other) noexcept : sink_(other.release())
    {
    }
    sink &operator=(sink &&other) noexcept
    {
        sink taken(std::move(other));

        std::swap(sink_, taken.sink_); /* what was here is closed */
        return *this;
    }
    ~sink()
    {
        struct ::ahead_error err = {};

        if (sink_.ops && sink_.ops->close)
            (void)sink_.ops->close(sink_.ctx, &err);
    }

    struct ahead_sink release() noexcept
    {
        struct ahead_sink s = sink_;

        sink_ = {};
        return s;
    }

  private:
    sink() noexcept : sink_()
    {
    }

    struct ahead_sink sink_;
};

/* close() says whether the output is whole.  A writer that is destroyed while an
 * exception passes gives its output up, so that nobody takes it for whole. */
class writer
{
  public:
    explicit writer(sink to, const struct ahead_options &opt = {})
    {
        check(::ahead_writer_open(&w_, to.release(), &opt));
    }

    /* Takes a C writer. */
    explicit writer(struct ahead_writer *w) noexcept : w_(w)
    {
    }

    writer(writer &&other) noexcept : exceptions_(other.exceptions_), w_(other.release())
    {
    }
    writer &operator=(writer &&other) noexcept
    {
        writer taken(std::move(other));

        std::swap(exceptions_, taken.exceptions_);
        std::swap(w_, taken.w_); /* what was here is closed */
        return *this;
    }
    ~writer()
    {
        if (std::uncaught_exceptions() > exceptions_)
            cancel();
        (void)::ahead_writer_close(w_);
    }

    void close()
    {
        struct ::ahead_error what = {};
        enum ahead_status st = ::ahead_writer_close_error(release(), &what);

        check(st, &what);
    }

    void cancel() noexcept
    {
        ::ahead_writer_cancel(w_);
    }
    void write(const void *src, std::size_t len)
    {
        checked(::ahead_write(w_, src, len));
    }
    void write(std::string_view bytes)
    {
        write(bytes.data(), bytes.size());
    }

#define AHEAD_HPP_WRITE_(name, type)                                                               \
    void write_##name(type v)                                                                      \
    {                                                                                              \
        checked(::ahead_write_##name(w_, v));                                                      \
    }
#define AHEAD_HPP_WRITE_BOTH_(name, type)                                                          \
    AHEAD_HPP_WRITE_(name##_be, type)                                                              \
    AHEAD_HPP_WRITE_(name##_le, type)

    AHEAD_HPP_WRITE_(u8, std::uint8_t)
    AHEAD_HPP_WRITE_(i8, std::int8_t)
    AHEAD_HPP_WRITE_(bool, bool)
    AHEAD_HPP_WRITE_BOTH_(u16, std::uint16_t)
    AHEAD_HPP_WRITE_BOTH_(i16, std::int16_t)
    AHEAD_HPP_WRITE_BOTH_(u32, std::uint32_t)
    AHEAD_HPP_WRITE_BOTH_(i32, std::int32_t)
    AHEAD_HPP_WRITE_BOTH_(u64, std::uint64_t)
    AHEAD_HPP_WRITE_BOTH_(i64, std::int64_t)
    AHEAD_HPP_WRITE_BOTH_(f32, float)
    AHEAD_HPP_WRITE_BOTH_(f64, double)
    AHEAD_HPP_WRITE_(varint_u32, std::uint32_t)
    AHEAD_HPP_WRITE_(varint_u64, std::uint64_t)
    AHEAD_HPP_WRITE_(zigzag_i32, std::int32_t)
    AHEAD_HPP_WRITE_(zigzag_i64, std::int64_t)

#undef AHEAD_HPP_WRITE_BOTH_
#undef AHEAD_HPP_WRITE_

    void flush()
    {
        checked(::ahead_writer_flush(w_));
    }
    std::uint64_t tell() const noexcept
    {
        return ::ahead_writer_tell(w_);
    }

    struct ahead_writer *get() const noexcept
    {
        return w_;
    }
    struct ahead_writer *release() noexcept
    {
        return std::exchange(w_, nullptr);
    }

  private:
    void checked(enum ahead_status st)
    {
        check(st, ::ahead_writer_error(w_));
    }

    int exceptions_ = std::uncaught_exceptions();
    struct ahead_writer *w_ = nullptr;
};

} /* namespace ahead */

#endif
