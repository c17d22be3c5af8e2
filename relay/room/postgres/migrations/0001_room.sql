-- Projections of the log that the room reads every day. `number` is the room's short number for people.
CREATE TABLE messages (
  number BIGINT PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  pos BIGINT NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  ts TEXT COLLATE "C" NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  speaker TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  body TEXT COLLATE "C" NOT NULL,
  in_reply_to TEXT COLLATE "C",
  addressed TEXT COLLATE "C" NOT NULL DEFAULT '[]',
  job BIGINT,
  meta TEXT COLLATE "C" NOT NULL DEFAULT '{}',
  client_id TEXT COLLATE "C" UNIQUE,
  plain_digest TEXT COLLATE "C"
);
CREATE UNIQUE INDEX messages_by_pos ON messages (pos);
CREATE INDEX messages_by_at ON messages (at);
CREATE INDEX messages_by_plain ON messages (plain_digest) WHERE plain_digest IS NOT NULL;

-- Words as SQLite's unicode61 tells them apart, the same in a database of any locale: small letters without their
-- marks, with a space for whatever is neither letter nor digit. lower() knows ASCII only under "C"; translate()
-- brings the other letters that have a small form (Unicode 14, the basic plane), and the final sigma.
CREATE FUNCTION relay_fold(text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN regexp_replace(
  lower(regexp_replace(
    translate(normalize($1, NFD) COLLATE "C",
      'ÆÐØÞĐĦĲĿŁŊŒŦƁƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƢƤƦƧƩƬƮƱƲƳƵƷƸƼǄǅǇǈǊǋǤǱǲǶǷȜȠȢȤȺȻȽȾɁɃɄɅɆɈɊɌɎͰͲͶͿΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡ'
    || 'ΣΤΥΦΧΨΩϏϘϚϜϞϠϢϤϦϨϪϬϮϴϷϹϺϽϾϿЂЄЅІЈЉЊЋЏАБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠ'
    || 'ҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӃӅӇӉӋӍӔӘӠӨӶӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖႠႡႢ'
    || 'ႣႤႥႦႧႨႩႪႫႬႭႮႯႰႱႲႳႴႵႶႷႸႹႺႻႼႽႾႿჀჁჂჃჄჅჇჍᎠᎡᎢᎣᎤᎥᎦᎧᎨᎩᎪᎫᎬᎭᎮᎯᎰᎱᎲᎳᎴᎵᎶᎷᎸᎹᎺᎻᎼᎽᎾᎿᏀᏁᏂᏃᏄᏅᏆᏇᏈᏉᏊᏋᏌᏍᏎᏏᏐᏑᏒᏓᏔᏕᏖᏗᏘᏙ'
    || 'ᏚᏛᏜᏝᏞᏟᏠᏡᏢᏣᏤᏥᏦᏧᏨᏩᏪᏫᏬᏭᏮᏯᏰᏱᏲᏳᏴᏵᲐᲑᲒᲓᲔᲕᲖᲗᲘᲙᲚᲛᲜᲝᲞᲟᲠᲡᲢᲣᲤᲥᲦᲧᲨᲩᲪᲫᲬᲭᲮᲯᲰᲱᲲᲳᲴᲵᲶᲷᲸᲹᲺᲽᲾᲿẞỺỼỾℲⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅬⅭⅮⅯ'
    || 'ↃⒶⒷⒸⒹⒺⒻⒼⒽⒾⒿⓀⓁⓂⓃⓄⓅⓆⓇⓈⓉⓊⓋⓌⓍⓎⓏⰀⰁⰂⰃⰄⰅⰆⰇⰈⰉⰊⰋⰌⰍⰎⰏⰐⰑⰒⰓⰔⰕⰖⰗⰘⰙⰚⰛⰜⰝⰞⰟⰠⰡⰢⰣⰤⰥⰦⰧⰨⰩⰪⰫⰬⰭⰮⰯⱠⱢⱣⱤⱧⱩⱫⱭⱮⱯⱰⱲⱵⱾⱿⲀⲂⲄⲆⲈ'
    || 'ⲊⲌⲎⲐⲒⲔⲖⲘⲚⲜⲞⲠⲢⲤⲦⲨⲪⲬⲮⲰⲲⲴⲶⲸⲺⲼⲾⳀⳂⳄⳆⳈⳊⳌⳎⳐⳒⳔⳖⳘⳚⳜⳞⳠⳢⳫⳭⳲꙀꙂꙄꙆꙈꙊꙌꙎꙐꙒꙔꙖꙘꙚꙜꙞꙠꙢꙤꙦꙨꙪꙬꚀꚂꚄꚆꚈꚊꚌꚎꚐꚒꚔꚖꚘꚚꜢꜤꜦꜨꜪꜬꜮꜲꜴꜶ'
    || 'ꜸꜺꜼꜾꝀꝂꝄꝆꝈꝊꝌꝎꝐꝒꝔꝖꝘꝚꝜꝞꝠꝢꝤꝦꝨꝪꝬꝮꝹꝻꝽꝾꞀꞂꞄꞆꞋꞍꞐꞒꞖꞘꞚꞜꞞꞠꞢꞤꞦꞨꞪꞫꞬꞭꞮꞰꞱꞲꞳꞴꞶꞸꞺꞼꞾꟀꟂꟄꟅꟆꟇꟉꟐꟖꟘꟵＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳ'
    || 'ＴＵＶＷＸＹＺς',
      'æðøþđħĳŀłŋœŧɓƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵƣƥʀƨʃƭʈʊʋƴƶʒƹƽǆǆǉǉǌǌǥǳǳƕƿȝƞȣȥⱥȼƚⱦɂƀʉʌɇɉɋɍɏͱͳͷϳαβγδεζηθικλμνξοπρ'
    || 'στυφχψωϗϙϛϝϟϡϣϥϧϩϫϭϯθϸϲϻͻͼͽђєѕіјљњћџабвгдежзиклмнопрстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡ'
    || 'ңҥҧҩҫҭүұҳҵҷҹһҽҿӏӄӆӈӊӌӎӕәӡөӷӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯաբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆⴀⴁⴂ'
    || 'ⴃⴄⴅⴆⴇⴈⴉⴊⴋⴌⴍⴎⴏⴐⴑⴒⴓⴔⴕⴖⴗⴘⴙⴚⴛⴜⴝⴞⴟⴠⴡⴢⴣⴤⴥⴧⴭꭰꭱꭲꭳꭴꭵꭶꭷꭸꭹꭺꭻꭼꭽꭾꭿꮀꮁꮂꮃꮄꮅꮆꮇꮈꮉꮊꮋꮌꮍꮎꮏꮐꮑꮒꮓꮔꮕꮖꮗꮘꮙꮚꮛꮜꮝꮞꮟꮠꮡꮢꮣꮤꮥꮦꮧꮨꮩ'
    || 'ꮪꮫꮬꮭꮮꮯꮰꮱꮲꮳꮴꮵꮶꮷꮸꮹꮺꮻꮼꮽꮾꮿᏸᏹᏺᏻᏼᏽაბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰჱჲჳჴჵჶჷჸჹჺჽჾჿßỻỽỿⅎⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅺⅻⅼⅽⅾⅿ'
    || 'ↄⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙⓚⓛⓜⓝⓞⓟⓠⓡⓢⓣⓤⓥⓦⓧⓨⓩⰰⰱⰲⰳⰴⰵⰶⰷⰸⰹⰺⰻⰼⰽⰾⰿⱀⱁⱂⱃⱄⱅⱆⱇⱈⱉⱊⱋⱌⱍⱎⱏⱐⱑⱒⱓⱔⱕⱖⱗⱘⱙⱚⱛⱜⱝⱞⱟⱡɫᵽɽⱨⱪⱬɑɱɐɒⱳⱶȿɀⲁⲃⲅⲇⲉ'
    || 'ⲋⲍⲏⲑⲓⲕⲗⲙⲛⲝⲟⲡⲣⲥⲧⲩⲫⲭⲯⲱⲳⲵⲷⲹⲻⲽⲿⳁⳃⳅⳇⳉⳋⳍⳏⳑⳓⳕⳗⳙⳛⳝⳟⳡⳣⳬⳮⳳꙁꙃꙅꙇꙉꙋꙍꙏꙑꙓꙕꙗꙙꙛꙝꙟꙡꙣꙥꙧꙩꙫꙭꚁꚃꚅꚇꚉꚋꚍꚏꚑꚓꚕꚗꚙꚛꜣꜥꜧꜩꜫꜭꜯꜳꜵꜷ'
    || 'ꜹꜻꜽꜿꝁꝃꝅꝇꝉꝋꝍꝏꝑꝓꝕꝗꝙꝛꝝꝟꝡꝣꝥꝧꝩꝫꝭꝯꝺꝼᵹꝿꞁꞃꞅꞇꞌɥꞑꞓꞗꞙꞛꞝꞟꞡꞣꞥꞧꞩɦɜɡɬɪʞʇʝꭓꞵꞷꞹꞻꞽꞿꟁꟃꞔʂᶎꟈꟊꟑꟗꟙꟶａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓ'
    || 'ｔｕｖｗｘｙｚσ'),
    '[\u0300-\u036f]+', '', 'g')),
  '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7'
    || '\u2000-\u206f\u20a0-\u20cf\u2190-\u245f\u249c-\u24e9\u2500-\u2775\u2794-\u2bff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020'
    || '\ue000-\uf8ff\ufe10-\ufe6f\ufeff-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\uffe0-\uffff\U0001f000-\U0001faff]+',
  ' ', 'g');

-- The words of an entry: of its first 150,000 characters, so that no text is too large for a tsvector (1 MiB).
CREATE FUNCTION relay_words(text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10000
SET search_path = pg_catalog  -- so that it is not inlined: then its cost counts, and its index is taken
RETURN to_tsvector('pg_catalog.simple'::regconfig, left(relay_fold(left($1, 150000)), 150000));

-- What is looked for, as a JSON list of words: all of them; one that is several (`foo.py`) as a run of them; the
-- last of each as a beginning. NULL when there is nothing to look for.
CREATE FUNCTION relay_words_query(words text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
  SELECT CAST(string_agg(run || ':*', ' & ') AS tsquery)
  FROM jsonb_array_elements_text(CAST(words AS jsonb)) AS w (word)
  CROSS JOIN LATERAL (
    SELECT string_agg(quote_literal(left(one, 500)), ' <-> ' ORDER BY place) AS run
    FROM regexp_split_to_table(btrim(relay_fold(word)), ' +') WITH ORDINALITY AS t (one, place) WHERE one <> ''
  ) AS r
  WHERE run IS NOT NULL);

CREATE INDEX messages_by_words ON messages USING gin (relay_words(body));

-- Entries that are in the room but not yet seen in the transcript file, with the exact line to append.
CREATE TABLE outbox (
  message_id TEXT COLLATE "C" PRIMARY KEY,
  number BIGINT NOT NULL,
  line BYTEA NOT NULL
);
CREATE INDEX outbox_by_number ON outbox (number);

-- Where the tail stands in the transcript. The digests of the bytes before `offset` tell continuation from
-- replacement.
CREATE TABLE tail (
  id BIGINT PRIMARY KEY CHECK (id = 1),
  "offset" BIGINT NOT NULL,
  head_len BIGINT NOT NULL,
  head_sha TEXT COLLATE "C" NOT NULL,
  last_len BIGINT NOT NULL,
  last_sha TEXT COLLATE "C" NOT NULL,
  history_until BIGINT NOT NULL DEFAULT 0
);

-- One routing cycle for each message of a person that opens one.
-- state: routing | routed | absorbed | clarified | folded | steward | overruled
CREATE TABLE cycles (
  message_id TEXT COLLATE "C" PRIMARY KEY,
  number BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  opened_at DOUBLE PRECISION NOT NULL,
  due_at DOUBLE PRECISION NOT NULL,
  decision TEXT COLLATE "C",
  folded_into TEXT COLLATE "C"
);
CREATE INDEX cycles_routing ON cycles (number) WHERE state = 'routing';

-- 002, section 1: the dispatch queue. state: pending | active | done | failed | skipped | dead
-- (`failed` = will be tried again at `not_before`).
CREATE TABLE dispatch_queue (
  id BIGINT PRIMARY KEY,
  message_id TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  attempts BIGINT NOT NULL DEFAULT 0,
  not_before DOUBLE PRECISION NOT NULL DEFAULT 0,
  lease_until DOUBLE PRECISION,
  holder TEXT COLLATE "C",
  error TEXT COLLATE "C",
  error_class TEXT COLLATE "C",
  cause_event TEXT COLLATE "C" NOT NULL,
  answer_id TEXT COLLATE "C",
  folded_into BIGINT,
  interrupted INTEGER NOT NULL DEFAULT 0,
  created_at DOUBLE PRECISION NOT NULL,
  started_at DOUBLE PRECISION,
  ended_at DOUBLE PRECISION,
  UNIQUE (message_id, agent)
);
CREATE INDEX dispatch_open ON dispatch_queue (agent, id) WHERE state IN ('pending', 'failed', 'active');

CREATE TABLE breakers (
  agent TEXT COLLATE "C" PRIMARY KEY,
  state TEXT COLLATE "C" NOT NULL,
  failures BIGINT NOT NULL,
  opened_at DOUBLE PRECISION,
  parked_until DOUBLE PRECISION
);

-- What the room knows of an agent between turns: its conversation, and what it was shown.
CREATE TABLE agents (
  name TEXT COLLATE "C" PRIMARY KEY,
  paused INTEGER NOT NULL DEFAULT 0,
  session TEXT COLLATE "C",
  resume TEXT COLLATE "C",
  shown_number BIGINT NOT NULL DEFAULT 0
);

-- One row a turn that ended, for budgets and the agents' log.
CREATE TABLE turns (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  agent TEXT COLLATE "C" NOT NULL,
  job BIGINT NOT NULL,
  started_at DOUBLE PRECISION NOT NULL,
  ended_at DOUBLE PRECISION NOT NULL,
  failure TEXT COLLATE "C",
  input_tokens BIGINT NOT NULL DEFAULT 0,
  output_tokens BIGINT NOT NULL DEFAULT 0,
  cost_usd DOUBLE PRECISION NOT NULL DEFAULT 0
);
CREATE INDEX turns_by_agent ON turns (agent, started_at);
