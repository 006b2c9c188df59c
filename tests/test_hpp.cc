/* SPDX-License-Identifier: Apache-2.0 */
/* test_hpp.cc - ahead.hpp: the same bytes and endings, thrown; everything is closed, once. */
#include <ahead/ahead.hpp>

#include <cstdio>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <unistd.h>

namespace
{

int failed_here;

void expect_(bool fact, const char *text, int line)
{
    if (fact)
        return;
    failed_here++;
    std::fprintf(stderr, "test_hpp.cc:%d: %s: is not so\n", line, text);
}
#define expect(fact) expect_((fact), #fact, __LINE__)

/* The status that `call` throws; OK if it does not. */
enum ahead_status thrown(const std::function<void()> &call)
{
    try {
        call();
    } catch (const ahead::error &e) {
        return e.status();
    }
    return AHEAD_OK;
}

/* Counts what is alive, and throws what it is told behind its bytes. */
struct scripted : ahead::source_base {
    static int alive;
    std::string bytes;
    std::function<void()> then;

    explicit scripted(std::string b, std::function<void()> t = nullptr)
        : bytes(std::move(b)), then(std::move(t))
    {
        alive++;
    }
    ~scripted() override
    {
        alive--;
    }

    std::size_t read(void *dst, std::size_t len) override
    {
        std::size_t n = std::min(len, bytes.size());

        if (n == 0 && then)
            then();
        std::memcpy(dst, bytes.data(), n);
        bytes.erase(0, n);
        return n;
    }
};
int scripted::alive;

ahead::stream
play(std::string bytes, std::function<void()> then = nullptr, const ahead_options &opt = {})
{
    return ahead::stream(
        ahead::source::of(std::make_unique<scripted>(std::move(bytes), std::move(then))), opt);
}

std::string text_of(std::size_t lines)
{
    std::string text;

    for (std::size_t i = 0; i < lines; i++)
        text += "line " + std::to_string(i) + "\n";
    return text;
}

std::string a_file()
{
    char path[] = "/tmp/test_hpp.XXXXXX";
    int fd = mkstemp(path);

    expect(fd >= 0);
    close(fd);
    return path;
}

void values_come_back()
{
    std::string path = a_file();
    ahead::writer w(ahead::sink::lz4_block(ahead::sink::path(path)));

    for (std::int32_t i = 0; i < 100000; i++)
        w.write_i32_be(i);
    w.write_f64_le(0.5);
    w.write_varint_u64(1u << 20);
    w.write_zigzag_i32(-3);
    w.write_bool(true);
    w.write("tail");
    expect(w.tell() == 400000 + 8 + 3 + 1 + 1 + 4);
    w.close();

    enum ahead_format found = AHEAD_FORMAT_PLAIN;
    ahead::stream s(ahead::source::detect(ahead::source::path(path), nullptr, &found));
    std::int32_t v = -1;
    std::uint64_t big = 0;
    double d = 0;
    bool yes = false, same = true;
    char tail[4];

    expect(found == AHEAD_FORMAT_LZ4_BLOCK);
    for (std::int32_t i = 0; i < 100000; i++)
        same = s.read_i32_be(v) && v == i && same;
    expect(same);
    expect(s.read_f64_le(d) && d == 0.5);
    expect(s.read_varint_u64(big) && big == 1u << 20);
    expect(s.read_zigzag_i32(v) && v == -3);
    expect(s.read_bool(yes) && yes);
    expect(s.read_full(tail, 4) && std::memcmp(tail, "tail", 4) == 0);
    expect(!s.read_i32_be(v) && v == -3);
    expect(!s.read_full(tail, 4) && s.read(tail, 4) == 0);
    s.finish();
    expect(s.stats().bytes == s.tell());
    s.close();
    unlink(path.c_str());
}

void faults_are_thrown_behind_the_good_bytes()
{
    ahead::stream s = play("abcdef", [] {
        struct ahead_error e = {};

        e.status = AHEAD_CORRUPT;
        e.source_offset = 77;
        std::snprintf(e.text, sizeof e.text, "deep");
        throw ahead::error(e);
    });
    std::uint32_t v = 0;
    char c;

    expect(s.read_u32_be(v) && v == 0x61626364);
    expect(thrown([&] { s.read_u32_be(v); }) == AHEAD_CORRUPT);
    expect(s.peek(10) == "ef");
    expect(s.read(&c, 1) == 1 && c == 'e');
    expect(s.read(&c, 1) == 1 && c == 'f');
    try {
        s.read(&c, 1);
        expect(false);
    } catch (const ahead::error &e) {
        expect(e.status() == AHEAD_CORRUPT && e.source_offset() == 77 && e.offset() == 6);
        expect(std::string(e.what()) == "CORRUPT: deep");
    }
    expect(thrown([&] { s.peek(1); }) == AHEAD_CORRUPT);
    expect(thrown([&] { s.finish(); }) == AHEAD_CORRUPT);
    expect(thrown([&] { s.close(); }) == AHEAD_CORRUPT);
    expect(scripted::alive == 0);
}

void what_a_source_throws_is_an_ending()
{
    struct {
        std::function<void()> then;
        enum ahead_status status;
        int os_errno;
    } cases[] = {
        { [] { throw std::system_error(ENXIO, std::generic_category(), "no"); }, AHEAD_IO, ENXIO },
        { [] { throw std::bad_alloc(); }, AHEAD_NOMEM, 0 },
        { [] { throw std::runtime_error("odd"); }, AHEAD_IO, 0 },
        { [] { throw 7; }, AHEAD_IO, 0 },
        { [] { throw ahead::error(AHEAD_LIMIT); }, AHEAD_LIMIT, 0 },
    };

    for (auto &c : cases) {
        ahead::stream s = play("x", c.then);
        char byte;

        expect(s.read(&byte, 1) == 1);
        try {
            s.read(&byte, 1);
            expect(false);
        } catch (const ahead::error &e) {
            expect(e.status() == c.status && e.os_errno() == c.os_errno && *e.details().text);
        }
    }
    expect(scripted::alive == 0);
}

void owners_close_once()
{
    static_assert(!std::is_copy_constructible_v<ahead::stream>);
    static_assert(!std::is_copy_constructible_v<ahead::source>);
    static_assert(std::is_nothrow_move_constructible_v<ahead::writer>);
    {
        ahead::source unused = ahead::source::of(std::make_unique<scripted>("a"));
        ahead::source other = std::move(unused);

        expect(scripted::alive == 1);
        other = ahead::source::of(std::make_unique<scripted>("b"));
        expect(scripted::alive == 1);
    }
    expect(scripted::alive == 0);
    {
        ahead::stream s = play("abc"), t = play("def");
        char c;

        s = std::move(t);
        expect(scripted::alive == 1); /* what was there is closed at once */
        expect(t.get() == nullptr);
        expect(s.read(&c, 1) == 1 && c == 'd');
        struct ahead_options bad = {};
        bad.flags = 1u << 30;
        expect(thrown([&] { play("x", nullptr, bad); }) == AHEAD_INVALID);
        expect(scripted::alive == 1);
    }
    expect(scripted::alive == 0);
    ahead::stream gone = play("abc");
    gone.close();
    gone.close();
    gone.cancel();
    try {
        ahead::stream s("/no/such/file");
        expect(false);
    } catch (const ahead::error &e) {
        expect(e.status() == AHEAD_IO && e.os_errno() == ENOENT);
        expect(std::string(e.what()).find("No such file") != std::string::npos);
    }
    expect(thrown([] { ahead::source::of(nullptr); }) == AHEAD_INVALID);
}

void lines_and_places()
{
    ahead::stream s(ahead::source::memory("one\ntwo\nend"));
    std::string_view line;

    expect(s.size() == 11);
    expect(s.read_until('\n', line) && line == "one\n");
    expect(s.peek(3).substr(0, 3) == "two");
    s.consume(1);
    expect(s.tell() == 5 && s.buffered() > 0);
    expect(thrown([&] { s.read_until('\n', line, 2); }) == AHEAD_LIMIT);
    expect(s.read_until('\n', line, 3) && line == "wo\n");
    expect(s.peek(100) == "end");
    expect(s.read_until('\n', line) && line == "end");
    expect(!s.read_until('\n', line) && s.peek(1).empty());
    s.seek(4);
    expect(s.skip(3) == 3 && s.skip(100) == 4);
    expect(thrown([&] { s.seek(4), s.finish(); }) == AHEAD_CORRUPT);
}

void istream_reads_as_any_other()
{
    std::string text = text_of(50000);
    ahead_options opt = {};

    for (std::size_t bytes : { 1, 7, 4096, 0 }) {
        opt.buffer_bytes = bytes;
        ahead::istream in(play(bytes == 1 ? text.substr(0, 3000) : text, nullptr, opt));
        std::istringstream want(bytes == 1 ? text.substr(0, 3000) : text);
        std::string a, b;
        bool same = true;

        for (int i = 0; std::getline(want, b); i++) {
            same = std::getline(in, a) && a == b && same;
            if (i % 100 == 0)
                same = in.tellg() == want.tellg() && same;
        }
        expect(same);
        expect(!std::getline(in, a) && in.eof() && !in.bad());
    }

    ahead::istream words(ahead::stream(ahead::source::memory("12 x 0.5")));
    int i = 0;
    std::string x;
    double d = 0;

    expect(words >> i >> x >> d && i == 12 && x == "x" && d == 0.5);
    std::vector<char> all{ std::istreambuf_iterator<char>(ahead::istream(play(text)).rdbuf()), {} };
    expect(std::string(all.begin(), all.end()) == text);
}

void istream_seeks_where_the_source_does()
{
    std::string text = text_of(50000), path = a_file(), line;

    {
        ahead::writer w(ahead::sink::path(path));
        w.write(text);
        w.close();
    }
    ahead_options opt = {};
    opt.buffer_bytes = 5000;
    ahead::istream in(ahead::stream(path, opt));
    auto end = static_cast<std::streamoff>(text.size());

    expect(in.rdbuf()->in_avail() >= 0);
    expect(std::getline(in, line) && in.tellg() == 7);
    expect(in.underlying().tell() == 7 && in.get() == 'l');
    for (std::streamoff to : { end / 2, std::streamoff(0), end - 1, std::streamoff(8000) }) {
        expect(in.seekg(to) && in.tellg() == to);
        expect(in.get() == text[static_cast<std::size_t>(to)]);
        expect(in.seekg(-1, std::ios::cur) && in.get() == text[static_cast<std::size_t>(to)]);
    }
    expect(in.seekg(0, std::ios::end) && in.tellg() == end && in.get() == EOF);
    in.clear();
    expect(in.seekg(-5, std::ios::end) && in.tellg() == end - 5 && std::getline(in, line));
    expect(line == text.substr(text.size() - 5, 4));
    expect(!in.seekg(-1, std::ios::beg) && in.fail());
    in.clear();
    expect(in.tellg() == end);
    unlink(path.c_str());

    ahead::istream pipe(play(text));
    expect(std::getline(pipe, line) && pipe.tellg() == 7);
    expect(!pipe.seekg(0, std::ios::end));
    pipe.clear();
    expect(pipe.tellg() == 7 && std::getline(pipe, line) && line == "line 1");
}

void istream_is_bad_behind_the_good_bytes()
{
    auto fail = [] { throw ahead::error(AHEAD_TRUNCATED); };
    ahead::istream in(play("good\nrest", fail));
    std::string line;

    expect(std::getline(in, line) && line == "good");
    std::getline(in, line);
    expect(line == "rest" && in.bad() && !in.eof());

    ahead::istream throws(play("", fail));
    throws.exceptions(std::ios::badbit);
    expect(thrown([&] { throws.get(); }) == AHEAD_TRUNCATED);
}

void istream_counts_a_block_in_front_of_a_fault()
{
    std::string text = text_of(5000);
    std::vector<char> block(text.size() + 1);
    auto most = static_cast<std::streamsize>(block.size());

    for (std::size_t bytes : { 1, 4096, 0 }) {
        ahead_options opt = {};
        opt.buffer_bytes = bytes;
        ahead::istream in(play(
            text, [] { throw ahead::error(AHEAD_CORRUPT); }, opt));

        in.read(block.data(), most);
        expect(in.bad() && in.gcount() == most - 1);
        expect(std::equal(text.begin(), text.end(), block.begin()));
        in.clear();
        in.read(block.data(), 1);
        expect(in.bad() && !in.eof() && in.gcount() == 0);
    }

    auto fail = [] { throw ahead::error(AHEAD_TRUNCATED); };
    ahead::istream throws(play("good", fail));
    throws.exceptions(std::ios::badbit);
    expect(thrown([&] { throws.read(block.data(), most); }) == AHEAD_TRUNCATED);
    expect(throws.underlying().tell() == 4);

    ahead::streambuf alone(play("good", fail));
    expect(thrown([&] { alone.sgetn(block.data(), most); }) == AHEAD_TRUNCATED);
    ahead::istream whole(play(text));
    whole.read(block.data(), most);
    expect(!whole.bad() && whole.eof() && whole.gcount() == most - 1);
}

void a_time_limit_inside_a_block_loses_nothing()
{
    std::string block(8, '?');
    std::size_t got = 0, some = 0;
    ahead_options opt = {};
    int fds[2];

    opt.read_timeout_ms = 1;
    expect(pipe(fds) == 0);
    ahead::istream in(ahead::stream(ahead::source::fd(fds[0], AHEAD_FD_CLOSE), opt));

    /* Each way is cut after four bytes, and then goes on. */
    auto by_read = [&] {
        in.clear();
        in.read(&block[got], static_cast<std::streamsize>(8 - got));
        some = static_cast<std::size_t>(in.gcount());
        return in.bad();
    };
    auto by_read_full = [&] {
        return thrown([&] { in.underlying().read_full(&block[got], 8 - got, &some); }) ==
               AHEAD_TIMEDOUT;
    };
    for (const std::function<bool()> &cut :
         { std::function<bool()>(by_read), std::function<bool()>(by_read_full) }) {
        block.assign(8, '?');
        expect(write(fds[1], "abcd", 4) == 4);
        for (got = 0; got < 4; got += some)
            expect(cut());
        expect(write(fds[1], "efgh", 4) == 4);
        for (; got < 8; got += some)
            (void)cut();
        expect(got == 8 && block == "abcdefgh");
    }
    close(fds[1]);
}

void a_writer_in_an_exception_gives_up()
{
    std::string path = a_file();
    auto status_of = [&] {
        ahead::stream s(ahead::source::lz4_frame(ahead::source::path(path)));
        return thrown([&] { s.skip(UINT64_MAX); });
    };

    try {
        ahead::writer w(ahead::sink::lz4_frame(ahead::sink::path(path)));
        w.write(text_of(100));
        throw 1;
    } catch (int) {
    }
    expect(status_of() != AHEAD_OK);
    {
        ahead::writer w(ahead::sink::lz4_frame(ahead::sink::path(path)));
        w.write(text_of(100));
        w.flush();
    }
    expect(status_of() == AHEAD_OK);
    unlink(path.c_str());

    if (access("/dev/full", W_OK) == 0) {
        ahead::writer w(ahead::sink::path("/dev/full"));
        w.write("x");
        try {
            w.close();
            expect(false);
        } catch (const ahead::error &e) {
            expect(e.status() == AHEAD_IO && e.os_errno() == ENOSPC);
        }
    }
    expect(thrown([] { ahead::sink::path("/no/such/folder/file"); }) == AHEAD_IO);
}

void cancel_wakes_a_reader()
{
    int ends[2];

    expect(pipe(ends) == 0);
    ahead::stream s(ahead::source::fd(ends[0]));
    std::thread other([&] { s.cancel(); });
    char c;

    expect(thrown([&] { s.read(&c, 1); }) == AHEAD_CANCELLED);
    other.join();
    s.close();
    close(ends[0]);
    close(ends[1]);
}

void owners_of_c_objects()
{
    std::string path = a_file();
    ahead_spill_writer *sw = nullptr;
    ahead_spill_record rec;

    ahead::check(ahead_spill_writer_open(&sw, ahead::writer(ahead::sink::path(path)).release(), 1));
    ahead::spill_writer_ptr spill(sw);
    ahead::check(ahead_spill_put(spill.get(), 5, "ab", 2));
    ahead::check(ahead_spill_writer_close(spill.release()));

    ahead_spill_reader *r = nullptr;
    ahead::check(ahead_spill_reader_open(&r, ahead::stream(path).release(), nullptr));
    ahead::spill_reader_ptr reader(r);
    expect(ahead::check_read(ahead_spill_next(r, &rec), ahead_spill_error(r)));
    expect(rec.key_prefix == 5 && rec.len == 2);
    expect(!ahead::check_read(ahead_spill_next(r, &rec), ahead_spill_error(r)));
    unlink(path.c_str());
}

} /* namespace */

int main()
{
    static const struct {
        const char *name;
        void (*run)();
    } tests[] = {
#define TEST(name) { #name, name }
        TEST(values_come_back),
        TEST(faults_are_thrown_behind_the_good_bytes),
        TEST(what_a_source_throws_is_an_ending),
        TEST(owners_close_once),
        TEST(lines_and_places),
        TEST(istream_reads_as_any_other),
        TEST(istream_seeks_where_the_source_does),
        TEST(istream_is_bad_behind_the_good_bytes),
        TEST(istream_counts_a_block_in_front_of_a_fault),
        TEST(a_time_limit_inside_a_block_loses_nothing),
        TEST(a_writer_in_an_exception_gives_up),
        TEST(cancel_wakes_a_reader),
        TEST(owners_of_c_objects),
    };
    int passed = 0, failed = 0;

    for (const auto &test : tests) {
        failed_here = 0;
        try {
            test.run();
        } catch (const std::exception &e) {
            failed_here++;
            std::fprintf(stderr, "it threw: %s\n", e.what());
        }
        if (failed_here)
            std::fprintf(stderr, "hpp/%s: FAILED\n", test.name);
        failed_here ? failed++ : passed++;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
