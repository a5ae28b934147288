# cmake -DINPUT=text.txt -DOUTPUT=text.c -P embed_text.cmake
# The bytes of a file become a C array.
file(READ "${INPUT}" text HEX)
file(SIZE "${INPUT}" size)
string(REGEX REPLACE "(................................)" "\\1\n    " text "${text}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," text "${text}")
file(WRITE "${OUTPUT}" "/* Generated from reference/data/text.txt. */
#include \"reference/text.h\"

const size_t ref_text_size_bytes = ${size};
const unsigned char ref_text[] = {
    ${text}
};
")
