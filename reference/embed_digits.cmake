# cmake -DINPUT=digits.csv -DOUTPUT=digits.c -P embed_digits.cmake
# Each line of a csv of small integers becomes one row of a C array of bytes.
file(READ "${INPUT}" text)
string(STRIP "${text}" text)
string(REGEX REPLACE "\r?\n" "},\n    {" text "${text}")
file(WRITE "${OUTPUT}" "/* Generated from reference/data/digits.csv. */
#include \"reference/digits.h\"

const unsigned char ref_digits[REF_DIGITS_COUNT][REF_DIGITS_PIXELS + 1] = {
    {${text}},
};
")
